package directory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/share"
)

// walk takes what is selected of the next sessions by activity.
func (l *listing) walk(ctx context.Context) (more bool, err error) {
	if l.front == nil {
		read, err := l.active(ctx, l.place.After, l.limit-len(l.found.Items))
		if err != nil {
			return false, err
		}
		l.front = &read
	}
	list := *l.front
	l.front = nil
	found, err := l.selected(ctx, slices.DeleteFunc(list.Items, l.above))
	l.found.Items, l.place.After = append(l.found.Items, found...), list.Next
	return list.Next != "", err
}

// sorted takes the selected ones of some sessions, by activity.
func (l *listing) sorted(ctx context.Context, ids []repo.ID) (more bool, err error) {
	if len(ids) == 0 {
		return false, nil
	}
	read, err := l.store.Sessions().Read(ctx, repo.ReadSessions{IDs: ids})
	var sessions []repo.Session
	for _, s := range read.Sessions {
		if s != nil && s.Session.Owner == l.owner { // otherwise it is deleted
			sessions = append(sessions, s.Session)
		}
	}
	if err != nil {
		return false, err
	}
	return l.take(ctx, sessions)
}

// take takes the selected ones of sessions, by activity from the place on, until the page is full.
func (l *listing) take(ctx context.Context, sessions []repo.Session) (more bool, err error) {
	sessions = slices.DeleteFunc(sessions, l.above)
	slices.SortFunc(sessions, func(a, b repo.Session) int {
		return cmp.Or(b.UpdatedAt.Compare(a.UpdatedAt), b.ID.Compare(a.ID))
	})
	for len(sessions) > 0 && len(l.found.Items) < l.limit {
		next := sessions[:min(len(sessions), l.limit-len(l.found.Items))]
		found, err := l.selected(ctx, next)
		if err != nil {
			return false, err
		}
		last := next[len(next)-1]
		l.found.Items, sessions = append(l.found.Items, found...), sessions[len(next):]
		l.place.At, l.place.ID = last.UpdatedAt, last.ID
	}
	return len(sessions) > 0, nil
}

// above reports whether a session was given before the place, or was to be.
func (l *listing) above(s repo.Session) bool {
	return !l.place.At.IsZero() && cmp.Or(s.UpdatedAt.Compare(l.place.At), s.ID.Compare(l.place.ID)) >= 0
}

// again takes what has moved since the walk began, or the round before. The last round is one whose page has all of
// that as it was at one moment.
func (l *listing) again(ctx context.Context) (more bool, err error) {
	list, err := l.active(ctx, "", maxAgain)
	if err != nil {
		return false, err
	}
	first := l.place.At.IsZero()
	if first {
		l.place.Next = headOf(list.Items)
	}
	// In a minute with very many sessions the order differs from UpdatedAt's.
	whole := list.Next == "" || list.Items[len(list.Items)-1].UpdatedAt.Before(l.place.Head.At.Add(-time.Minute))
	shown := len(l.found.Items)
	more, err = l.take(ctx, slices.DeleteFunc(list.Items, l.place.Head.stays))
	for i := range l.found.Items[shown:] {
		l.found.Items[shown+i].Moved = true
	}
	switch {
	case more || err != nil:
		return more, err
	case !whole, !first && l.place.Round+1 == maxRounds:
		l.found.Unsure = true
		return false, nil
	}
	l.place = place{Part: partAgain, Head: l.place.Next, Round: l.place.Round + 1}
	return !first, nil
}

// selected returns what is selected of sessions, with their entries.
func (l *listing) selected(ctx context.Context, sessions []repo.Session) ([]Conversation, error) {
	all, err := l.fill(ctx, slices.DeleteFunc(slices.Clone(sessions), l.elsewhere))
	return slices.DeleteFunc(all, func(c Conversation) bool {
		return c.Archived != l.Archived || l.Unread && c.Unread == 0 || !c.has(l.wanted)
	}), err
}

// elsewhere reports whether a session is a share link, or is listed with the starred ones.
func (l *listing) elsewhere(s repo.Session) bool {
	version, starred := l.stars[s.ID]
	return share.IsLink(s) || l.place.Part == partRest && starred && version <= l.place.Starred
}

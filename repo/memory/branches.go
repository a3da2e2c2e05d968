package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// base is the session's first sequence, and next its next one.
func (r *sessionRow) base() int64 {
	if last := len(r.inherited) - 1; last >= 0 {
		return r.inherited[last].Sequence + 1
	}
	return 0
}

func (r *sessionRow) next() int64 { return r.base() + int64(len(r.messages)) }

// at returns the message with a sequence, or nil, and its place among a fork's inherited ones, or -1.
func (r *sessionRow) at(sequence int64) (*repo.Message, int) {
	base := r.base()
	if sequence >= base {
		if sequence >= r.next() {
			return nil, -1
		}
		return r.messages[sequence-base], -1
	}
	place, found := slices.BinarySearchFunc(r.inherited, sequence,
		func(m *repo.Message, s int64) int { return cmp.Compare(m.Sequence, s) })
	if !found {
		return nil, -1
	}
	return r.inherited[place], place
}

// all are the messages of all branches, and transcript the messages from the head back to the first one. The caller
// does not change them.
func (r *sessionRow) all() []*repo.Message {
	if len(r.inherited) == 0 {
		return r.messages
	}
	return slices.Concat(r.inherited, r.messages)
}

func (r *sessionRow) transcript() []*repo.Message {
	if !r.branched && r.follows == nil {
		return r.all()
	}
	return r.path(rules.Head(r.follows, r.next()))
}

func (r *sessionRow) path(head int64) (path []*repo.Message) {
	for head >= 0 {
		m, place := r.at(head)
		if place >= 0 {
			slices.Reverse(path)
			return append(slices.Clone(r.inherited[:place+1]), path...)
		}
		path = append(path, m)
		head = m.Follows
	}
	slices.Reverse(path)
	return path
}

// from returns ascending messages from a sequence on.
func from(messages []*repo.Message, sequence int64) []*repo.Message {
	first, _ := slices.BinarySearchFunc(messages, sequence, func(m *repo.Message, s int64) int {
		return cmp.Compare(m.Sequence, s)
	})
	return messages[first:]
}

// copiesOf returns messages as callers of a session get them: also a fork's inherited ones.
func copiesOf(sessionID repo.ID, messages []*repo.Message) []repo.Message {
	copies := each(messages, copyMessage)
	for i := range copies {
		copies[i].SessionID = sessionID
	}
	return copies
}

func (s sessions) Fork(ctx context.Context, id repo.ID, at int64, given repo.NewSession) (repo.Session, error) {
	chosen := !given.ID.IsZero()
	given, err := rules.NormalizeFork(s.options.view, at, given)
	return runOn(ctx, unless(err, s.write), s.session, id, func(t *tables, r *sessionRow) (repo.Session, error) {
		m, _ := r.at(at)
		if m == nil {
			return repo.Session{}, rules.NoMessage(at)
		}
		if taken := s.taken(t, given); len(taken) > 0 {
			stored := t.sessions.get(taken[0].ID)
			return rules.Forked(s.options.view, given, chosen, stored.base() == at+1 &&
				stored.inherited[len(stored.inherited)-1] == m, taken...)
		}
		now := t.now()
		fork, err := t.newSession(given, now)
		if err != nil {
			return repo.Session{}, err
		}
		path, owners := r.path(at), map[repo.ID]bool{}
		for _, m := range path {
			owners[m.SessionID] = true
		}
		if len(owners) > rules.MaxForkDepth {
			return repo.Session{}, rules.ForkTooDeep()
		}
		fork.inherited = path
		return s.insert(t, fork, now, `{}`), nil
	})
}

func (s sessions) Branches(ctx context.Context, sessionID repo.ID, sequence int64) ([]repo.Branch, error) {
	return runOn(ctx, unless(rules.CheckSequence("sequence", sequence), s.read), s.session, sessionID,
		func(_ *tables, r *sessionRow) ([]repo.Branch, error) {
			m, _ := r.at(sequence)
			if m == nil {
				return nil, rules.NoMessage(sequence)
			}
			tree := rules.Tree{
				Parent: m.Follows, Base: r.base(), Next: r.next(), Head: rules.Head(r.follows, r.next()),
				Inherited: -1,
			}
			if later := from(r.inherited, m.Follows+1); len(later) > 0 {
				tree.Inherited = later[0].Sequence
			}
			for _, m := range from(r.messages, tree.Parent+1) {
				if m.Follows != m.Sequence-1 {
					tree.Marks = append(tree.Marks, rules.Mark{Sequence: m.Sequence, Follows: m.Follows})
				}
			}
			if len(tree.Marks) > rules.MaxMarks {
				return nil, rules.TooManyMarks()
			}
			return tree.Branches(), nil
		})
}

// kept returns how many of the messages of a session its forks have.
func (t *tables) kept(id repo.ID) int64 {
	kept := map[int64]bool{}
	for _, r := range t.sessions.all() {
		for _, m := range r.inherited {
			if m.SessionID == id {
				kept[m.Sequence] = true
			}
		}
	}
	return int64(len(kept))
}

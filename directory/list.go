package directory

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/internal/cursor"
	"github.com/seed-df90f812/agentstore/repo"
)

// Selection says what to list. The zero value lists the conversations that are not archived, last active first.
type Selection struct {
	StarredFirst bool     // those that are starred when the first page is read come before the others
	Starred      bool     // only those that are starred
	Archived     bool     // only those that are archived, instead of the others
	Unread       bool     // only those with messages that are not read
	Tags         []string // only those with all of these tags, at most MaxTags
	Words        string   // only those whose title has, for each of these words, at most 10, one that begins with it
}

// Listing is a page of conversations. It may be short, and even empty: Next says whether there are others.
type Listing struct {
	Items []Conversation
	Next  string // continues the list with the same selection; empty: this was the last page
	// Unsure, on the last page: more was active meanwhile than could be read at one moment, and a conversation may be
	// missing.
	Unsure bool
}

const (
	maxTrips  = 8    // pages of sessions that one page of a listing reads
	maxFound  = 1000 // conversations that an index finds; beyond that, sessions are read by activity
	maxAgain  = 250  // sessions that are read at once to see what has moved
	maxRounds = 3    // for which such reads are repeated
	// late is how long after it has read the clock an append may be committed at most, to be seen by a walk.
	late = time.Minute
)

// part is where in a listing a page is.
type part int

const (
	partStarred part = iota // those that are starred
	partRest                // the others
	partAgain               // those that have moved
)

// place is where a page ends. All that is above At and ID was given, or is given again.
type place struct {
	Part part      `json:"p,omitempty"`
	At   time.Time `json:"t,omitzero"`
	ID   repo.ID   `json:"i,omitzero"`
	// Walk: sessions are read by activity, from After on.
	Walk  bool   `json:"w,omitempty"`
	After string `json:"a,omitempty"`
	// Starred is the version of the owner's scope when the first page was read. What was starred later is no longer first.
	Starred int64 `json:"s,omitempty"`
	Round   int   `json:"r,omitempty"`
	Head    head  `json:"h,omitzero"`
	Next    head  `json:"n,omitzero"` // of the next round
}

// head is the front of the list at a moment. What has moved since is in front of it, unless Known has its mark.
type head struct {
	At    time.Time `json:"t,omitzero"`
	Known []byte    `json:"k,omitempty"` // the marks of the sessions that are not before At, 8 bytes each
}

// headOf returns the head of the sessions that were active last.
func headOf(sessions []repo.Session) (h head) {
	for i, s := range sessions {
		if i == 0 {
			h.At = s.UpdatedAt.Add(-late)
		}
		if !s.UpdatedAt.Before(h.At) {
			h.Known = append(h.Known, markOf(s)...)
		}
	}
	return h
}

// markOf returns a hash of a session's last activity.
func markOf(s repo.Session) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", s.ID, s.UpdatedAt.UnixMicro()))
	return sum[:8]
}

// stays reports whether a session has not moved since.
func (h head) stays(s repo.Session) bool {
	return s.UpdatedAt.Before(h.At) || slices.ContainsFunc(slices.Collect(slices.Chunk(h.Known, 8)), func(mark []byte) bool {
		return bytes.Equal(mark, markOf(s))
	})
}

// List returns one page of the conversations that the selection selects. Whoever reads all pages gets each conversation
// that exists and is selected throughout at least once, also while messages are appended: see Conversation.Moved. The
// exception is said by Listing.Unsure. An append must be committed within a minute, and the database's clock not step
// back. Share links are left out.
//
// A page reads at most 1,000 keys of an index for each star, tag and word, and then either the up to 1,000 sessions that
// the rarest finds, or up to 8 pages of sessions by activity; and their entries. It writes nothing.
//
// Errors: InvalidError; those of Sessions.List, Sessions.Read and State.
func (d *Directory) List(ctx context.Context, selection Selection, page repo.Page) (Listing, error) {
	l := &listing{Directory: d, Selection: selection, words: wordsOf(selection.Words), limit: page.Limit}
	if err := l.check(); err != nil {
		return Listing{}, err
	}
	l.limit = cmp.Or(l.limit, repo.DefaultPageSize)
	filter := []string{"directory", d.owner, fmt.Sprintf("%#v", selection)}
	var err error
	if page.After != "" {
		if l.place, err = cursor.Decode[place](page.After, filter...); err != nil {
			return Listing{}, &repo.InvalidError{Field: "after", Reason: err.Error()}
		}
	} else if err = l.begin(ctx); err != nil {
		return Listing{}, err
	}
	more := true
	for trips := 0; more && trips < maxTrips && len(l.found.Items) < l.limit; trips++ {
		if more, err = l.step(ctx); err != nil {
			return Listing{}, err
		}
	}
	if more {
		l.found.Next = cursor.Encode(l.place, filter...)
	}
	return l.found, nil
}

// listing is a page that is made.
type listing struct {
	*Directory
	Selection
	words []string
	limit int
	place place
	found Listing
	stars map[repo.ID]int64 // at which versions they were starred; nil: not read
}

func (l *listing) check() error {
	switch {
	case l.limit < 0 || l.limit > repo.MaxPageSize:
		return &repo.InvalidError{Field: "limit", Reason: fmt.Sprintf("is not from 0 to %d", repo.MaxPageSize)}
	case len(l.Tags) > MaxTags:
		return &repo.InvalidError{Field: "tags", Reason: "are too many"}
	case len(l.Words) > MaxTitleBytes || len(l.words) > 10 || l.Words != "" && (len(l.words) == 0 || !isText(l.Words)):
		return &repo.InvalidError{Field: "words", Reason: "are more than 10, too long, or none in UTF-8"}
	}
	return checkTags("tags", l.Tags)
}

// begin remembers the front of the list before anything else is read.
func (l *listing) begin(ctx context.Context) error {
	const usually = 8 // which are active within a minute at most
	front, err := l.active(ctx, "", usually)
	h := headOf(front.Items)
	if err == nil && front.Next != "" && len(h.Known) == usually*8 {
		front, err = l.active(ctx, "", maxAgain)
		h = headOf(front.Items)
	}
	l.place = place{Part: partRest, Head: h}
	if err == nil && l.StarredFirst {
		l.place.Part = partStarred
		l.place.Starred, err = l.readStars(ctx)
	}
	return err
}

// active lists sessions by activity.
func (l *listing) active(ctx context.Context, after string, limit int) (repo.List[repo.Session], error) {
	return l.store.Sessions().List(ctx, repo.SessionFilter{Owner: l.owner, ByActivity: true},
		repo.Page{Limit: limit, After: after})
}

// step goes on at the place, and reports whether there is more.
func (l *listing) step(ctx context.Context) (more bool, err error) {
	if l.StarredFirst && l.stars == nil {
		if _, err := l.readStars(ctx); err != nil {
			return false, err
		}
	}
	switch {
	case l.place.Part == partStarred:
		ids := make([]repo.ID, 0, len(l.stars))
		for id, version := range l.stars {
			if version <= l.place.Starred {
				ids = append(ids, id)
			}
		}
		more, err = l.sorted(ctx, ids)
		if err == nil && !more {
			l.place.Part, l.place.At, l.place.ID, more = partRest, time.Time{}, repo.ID{}, true
		}
		return more, err
	case l.place.Part == partAgain:
		return l.again(ctx)
	case !l.place.Walk:
		ids, few, err := l.search(ctx)
		if err != nil {
			return false, err
		}
		if few {
			more, err = l.sorted(ctx, ids)
			break
		}
		l.place.Walk = true
		fallthrough
	default:
		more, err = l.walk(ctx)
	}
	if err == nil && !more { // now for what has moved
		l.place = place{Part: partAgain, Starred: l.place.Starred, Head: l.place.Head}
		more = true
	}
	return more, err
}

package directory

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/seed-df90f812/agentstore/internal/cursor"
	"github.com/seed-df90f812/agentstore/repo"
)

// Selection says what to list. The zero value lists the conversations that are not archived, last active first.
type Selection struct {
	StarredFirst bool     // conversations starred at the first page's reading come before the others
	Starred      bool     // only starred ones
	Archived     bool     // only archived ones, instead of the others
	Unread       bool     // only ones with unread messages
	Tags         []string // only ones with all of these tags, at most MaxTags
	// Words selects titles that have, for each of these words, at most 10, a word that begins with it, in any case. Bring
	// titles and words into one form of Unicode, such as NFC. Text without spaces is one word.
	Words string
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
	atFront   = 8    // sessions that are known to be at the front when a walk begins: a minute's, usually
	maxAgain  = 250  // sessions that are read at once to see what has moved
	maxRounds = 5    // for which such reads are repeated
	// late is how long after it has read the clock an append may be committed at most, to be seen by a walk.
	late = time.Minute
)

// List returns one page of the conversations that the selection selects. All pages together have each conversation that
// exists and is selected throughout at least once, also while messages are appended: see Conversation.Moved.
// Listing.Unsure reports the exception. An append must be committed within a minute, and the database's clock not step
// back. Share links are left out.
//
// A page reads at most 1,000 keys of an index for each star, tag and word, and then either the sessions that these
// find, up to 1,000, or up to 8 pages of sessions by activity; and their entries. It writes nothing.
//
// Errors: InvalidError; errors of Sessions.List, Sessions.Read and State.
func (d *Directory) List(ctx context.Context, selection Selection, page repo.Page) (Listing, error) {
	if err := selection.check(page.Limit); err != nil {
		return Listing{}, err
	}
	l := &listing{Directory: d, Selection: selection, limit: cmp.Or(page.Limit, repo.DefaultPageSize)}
	l.wanted = selection.wanted()
	filter := []string{"directory", d.owner, fmt.Sprintf("%#v", selection)}
	var err error
	if page.After != "" {
		if l.place, err = cursor.Decode[place](page.After, filter...); err != nil {
			return Listing{}, &repo.InvalidError{Field: "page.after", Reason: err.Error()}
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
	wanted []string
	limit  int
	place  place
	found  Listing
	front  *repo.List[repo.Session] // the first sessions by activity, if they were read for a walk
	stars  map[repo.ID]int64        // at which versions they were starred; nil: not read
}

func (s Selection) check(limit int) error {
	words := wordsOf(s.Words)
	switch {
	case limit < 0 || limit > repo.MaxPageSize:
		return &repo.InvalidError{Field: "page.limit", Reason: fmt.Sprintf("is not from 0 to %d", repo.MaxPageSize)}
	case len(s.Tags) > MaxTags:
		return &repo.InvalidError{Field: "tags", Reason: "are too many"}
	case len(s.Words) > MaxTitleBytes || len(words) > 10 || s.Words != "" && (len(words) == 0 || !isText(s.Words)):
		return &repo.InvalidError{Field: "words", Reason: "are more than 10, too long, or none in UTF-8"}
	}
	return checkTags("tags", s.Tags)
}

// begin remembers the front of the list before anything else is read.
func (l *listing) begin(ctx context.Context) error {
	count, plain := atFront, !l.StarredFirst && len(l.wanted) == 0
	if plain {
		count = l.limit // the walk begins with them
	}
	front, err := l.active(ctx, "", count)
	if l.place = (place{Part: partRest, Head: headOf(front.Items)}); plain {
		l.front = &front
	}
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
	switch l.place.Part {
	case partStarred:
		more, err = l.starred(ctx)
		if err == nil && !more {
			l.place.Part, l.place.At, l.place.ID, more = partRest, time.Time{}, repo.ID{}, true
		}
	case partAgain:
		more, err = l.again(ctx)
	default:
		more, err = l.rest(ctx)
		if err == nil && !more { // now for what has moved
			l.place, more = place{Part: partAgain, Head: l.place.Head}, true
		}
	}
	return more, err
}

// starred takes the ones that were starred when the first page was read.
func (l *listing) starred(ctx context.Context) (more bool, err error) {
	var ids []repo.ID
	for id, version := range l.stars {
		if version <= l.place.Starred {
			ids = append(ids, id)
		}
	}
	return l.sorted(ctx, ids)
}

// rest takes the others, as the indexes find them if these are few, and otherwise by activity. A walk stays one.
func (l *listing) rest(ctx context.Context) (more bool, err error) {
	if !l.place.Walk {
		ids, few, err := l.search(ctx)
		if err != nil {
			return false, err
		}
		if few {
			return l.sorted(ctx, ids)
		}
		l.place.Walk = true
	}
	return l.walk(ctx)
}

package repo

import (
	"context"
	"errors"
	"iter"
)

// EachSession yields the sessions that filter selects, in its order, each with what read
// says: SessionReader.List and SessionReader.Read, page by page, with as many sessions at a
// time as they allow. The IDs and Scopes of read are not used. A session is as it was at one
// moment, and the others as they were at others. One that is deleted meanwhile may be left
// out. Only a session whose own messages are too much for one Read is Cut.
//
// Memory is that of one page, and no connection is held while the loop's body runs. An
// error is yielded once, with a zero SessionSnapshot, and ends it: those of List and Read.
func EachSession(ctx context.Context, sessions SessionReader, filter SessionFilter, read ReadSessions) iter.Seq2[SessionSnapshot, error] {
	return func(yield func(SessionSnapshot, error) bool) {
		page := Page{Limit: MaxPageSize}
		if count := max(read.First, read.Last); count > 0 {
			page.Limit = max(1, min(MaxPageSize, MaxReadMessages/count))
		}
		for {
			listed, err := sessions.List(ctx, filter, page)
			if err != nil {
				yield(SessionSnapshot{}, err)
				return
			}
			ids := make([]ID, len(listed.Sessions))
			for i := range ids {
				ids[i] = listed.Sessions[i].ID
			}
			if !eachOf(ctx, sessions, ids, read, yield) {
				return
			}
			if page.After = listed.Next; page.After == "" {
				return
			}
		}
	}
}

// eachOf yields the sessions of a page, and reports whether to go on.
func eachOf(ctx context.Context, sessions SessionReader, ids []ID, read ReadSessions, yield func(SessionSnapshot, error) bool) bool {
	for count := len(ids); len(ids) > 0; count = min(count, len(ids)) {
		read.IDs, read.Scopes = ids[:count], nil
		snapshot, err := sessions.Read(ctx, read)
		if errors.Is(err, ErrLimit) && count > 1 { // fewer sessions have less state
			count /= 2
			continue
		} else if err != nil {
			yield(SessionSnapshot{}, err)
			return false
		}
		for i, session := range snapshot.Sessions {
			if session != nil && session.Cut && i > 0 { // the next Read begins with it
				break
			}
			ids = ids[1:]
			if session != nil && !yield(*session, nil) {
				return false
			}
		}
	}
	return true
}

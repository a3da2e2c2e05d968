package adapter

import (
	"context"
	"errors"
	"iter"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

// EachSession yields the sessions that filter selects, in its order, each with what read
// says: Sessions.List and Sessions.Read, page by page, with as many sessions at a
// time as they allow. The IDs and Scopes of read are not used. Each session is as it was at
// one moment, which differs between pages. One that is deleted meanwhile may be left out.
// Only a session whose own messages are too much for one Read is Cut.
//
// It has one page in memory, and holds no connection while the loop's body runs. An error
// of List or Read is yielded once, with a zero SessionSnapshot, and ends it.
func EachSession(ctx context.Context, sessions repo.Sessions, filter repo.SessionFilter,
	read repo.ReadSessions,
) iter.Seq2[repo.SessionSnapshot, error] {
	return func(yield func(repo.SessionSnapshot, error) bool) {
		page := repo.Page{Limit: repo.MaxPageSize}
		if count := max(read.First, read.Last); count > 0 {
			page.Limit = max(1, min(repo.MaxPageSize, limits.MaxReadMessages/count))
		}
		for {
			listed, err := sessions.List(ctx, filter, page)
			if err != nil {
				yield(repo.SessionSnapshot{}, err)
				return
			}
			ids := make([]repo.ID, len(listed.Items))
			for i := range ids {
				ids[i] = listed.Items[i].ID
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
func eachOf(ctx context.Context, sessions repo.Sessions, ids []repo.ID, read repo.ReadSessions,
	yield func(repo.SessionSnapshot, error) bool,
) bool {
	for count := len(ids); len(ids) > 0; count = min(count, len(ids)) {
		read.IDs, read.Scopes = ids[:count], nil
		snapshot, err := sessions.Read(ctx, read)
		if errors.Is(err, repo.ErrLimit) && count > 1 { // fewer sessions have less state
			count /= 2
			continue
		} else if err != nil {
			yield(repo.SessionSnapshot{}, err)
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

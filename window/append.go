package window

import (
	"context"
	"errors"
	"math"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// AppendTurn is like repo.Sessions.AppendTurn for a turn with a Head: if nothing but summaries has followed that
// message since, which [Compact] adds, the turn follows them.
//
// Errors: the errors of repo.Sessions.AppendTurn.
func AppendTurn(ctx context.Context, sessions repo.Sessions, turn repo.Turn) (repo.AppendedTurn, error) {
	given := turn
	for {
		appended, err := sessions.AppendTurn(ctx, turn)
		conflict, is := errors.AsType[*repo.SequenceConflictError](err)
		if !is || conflict.Kind != "head" {
			return appended, err
		}
		head, is, err := summarized(ctx, sessions, conflict.ID, *given.Head)
		if err != nil {
			return repo.AppendedTurn{}, err
		}
		if !is { // or another caller has stored the same turn meanwhile
			return sessions.AppendTurn(ctx, given)
		}
		turn.Head = &head
	}
}

// summarized returns the last message of the transcript, if all that come after head are summaries.
func summarized(ctx context.Context, sessions Reader, sessionID repo.ID, head int64) (last int64, is bool, err error) {
	last = head
	for last < math.MaxInt64 {
		page, err := sessions.Read(ctx, repo.ReadSessions{
			IDs: []repo.ID{sessionID}, From: last + 1, First: maxMessages,
			WithoutPayload: true,
		})
		if err != nil || page.Sessions[0] == nil || len(page.Sessions[0].Messages) == 0 {
			return last, last != head, err
		}
		for _, m := range page.Sessions[0].Messages {
			if _, is := rules.Covered(&m); m.Kind != repo.KindSummary || !is || m.Follows != last {
				return head, false, nil
			}
			last = m.Sequence
		}
	}
	return last, false, nil
}

package window

import (
	"context"
	"errors"

	"github.com/seed-df90f812/agentstore/repo"
)

// AppendTurn is like repo.Sessions.AppendTurn for a turn with a Head: if nothing but summaries has followed that message since, which
// [Compact] adds, the turn follows them.
//
// Errors: those of repo.Sessions.AppendTurn.
func AppendTurn(ctx context.Context, sessions repo.Sessions, turn repo.Turn) (repo.AppendedTurn, error) {
	for {
		appended, err := sessions.AppendTurn(ctx, turn)
		conflict, is := errors.AsType[*repo.SequenceConflictError](err)
		if !is || conflict.Kind != "head" || turn.Head == nil {
			return appended, err
		}
		head, is, readErr := summarized(ctx, sessions, turn.SessionID, *turn.Head)
		if readErr != nil || !is {
			return appended, err
		}
		turn.Head = &head
	}
}

// summarized returns the last message of the transcript, if all that come after head are summaries.
func summarized(ctx context.Context, sessions Reader, sessionID repo.ID, head int64) (last int64, is bool, err error) {
	snapshot, err := sessions.Read(ctx, repo.ReadSessions{IDs: []repo.ID{sessionID}, From: head + 1, First: maxMessages, WithoutPayload: true})
	if err != nil || snapshot.Sessions[0] == nil || snapshot.Sessions[0].Cut {
		return 0, false, err
	}
	last = head
	for _, m := range snapshot.Sessions[0].Messages {
		if m.Kind != repo.KindSummary || m.Follows != last {
			return 0, false, nil
		}
		last = m.Sequence
	}
	return last, last != head, nil
}

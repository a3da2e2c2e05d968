package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
)

// canJoin reports whether one statement can make all appends: each session has
// one statement in the group, and none expects a sequence.
func canJoin(statements []*statement) bool {
	for i, s := range statements {
		if s.waiters[0].expected != nil || i > 0 && s.waiters[0].sessionID == statements[i-1].waiters[0].sessionID {
			return false
		}
	}
	return len(statements) > 1
}

// sendJoined is sendAppends for statements that can be joined.
func sendJoined(ctx context.Context, q db.DBTX, statements []*statement) ([]*db.MessageAppendRow, error) {
	found, err := queries.MessageAppendMany(ctx, q, joinedParams(statements))
	if err != nil {
		return nil, err
	}
	bySession := make(map[repo.ID]*db.MessageAppendRow, len(found))
	for i := range found {
		row := &found[i]
		bySession[row.SessionID.Bytes] = &db.MessageAppendRow{
			NextSequence: row.NextSequence, Known: &row.Known, CreatedAt: row.CreatedAt,
		}
	}
	rows := make([]*db.MessageAppendRow, len(statements))
	for i, s := range statements {
		rows[i] = bySession[s.waiters[0].sessionID] // nil: there is no session
	}
	return rows, nil
}

func joinedParams(statements []*statement) db.MessageAppendManyParams {
	total := 0
	for _, s := range statements {
		total += s.size()
	}
	params := db.MessageAppendManyParams{
		CheckIds:   slices.ContainsFunc(statements, func(s *statement) bool { return s.checkIDs }),
		SessionIds: make([]pgtype.UUID, 0, len(statements)),
		Sizes:      make([]int64, 0, len(statements)),
		Owners:     make([]pgtype.UUID, 0, total),
		Places:     make([]int64, 0, total),
	}
	c := newColumns(total)
	for _, s := range statements {
		owner, place := toUUID(s.waiters[0].sessionID), int64(0)
		for _, w := range s.waiters {
			c.addAll(w.messages)
			for range w.messages {
				params.Owners = append(params.Owners, owner)
				params.Places = append(params.Places, place)
				place++
			}
		}
		params.SessionIds = append(params.SessionIds, owner)
		params.Sizes = append(params.Sizes, place)
	}
	params.Ids, params.Roles, params.Contents = c.ids, c.roles, c.contents
	params.Metadatas, params.Payloads, params.OccurredAts = c.metadatas, c.payloads, c.occurredAts
	return params
}

package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
)

// written says where a statement has left the counter row, and when. Nil: nothing was
// written.
type written struct {
	place[repo.ID]

	createdAt time.Time
}

// sendAppends sends statements, one for each session, as one that does not wait for any
// counter row.
func sendAppends(ctx context.Context, q db.DBTX, statements []*statement) ([]*written, error) {
	if len(statements) == 1 && statements[0].size() == 1 {
		return sendOne(ctx, q, statements[0])
	}
	return sendMany(ctx, q, statements, conn.AtReadCommitted)
}

func sendOne(ctx context.Context, q db.DBTX, s *statement) ([]*written, error) {
	m := &s.appends[0].messages[0]
	row, err := queries.MessageAppendOne(ctx, q, db.MessageAppendOneParams{
		SessionID:  toUUID(s.sessionID()),
		ID:         toUUID(m.ID),
		Role:       string(m.Role),
		Content:    m.Content,
		Metadata:   string(m.Metadata),
		Payload:    m.Payload,
		Kind:       m.Kind,
		CallID:     m.CallID,
		OccurredAt: m.OccurredAt,
		Tokens:     int32(m.Tokens),
		Counter:    m.Counter,
		Fence:      s.fence,
		Expected:   s.expected(),
		CheckID:    s.checkIDs,
		Hint:       s.hint,
	})
	switch {
	case err == nil:
		s.hint = row.Hint // otherwise the index has found the row
		return []*written{{place[repo.ID]{s.sessionID(), row.Hint, row.Sequence, row.Sequence + 1}, row.UpdatedAt}}, nil
	case conn.IsNoRows(err):
		s.hint = pgtype.TID{}
		return []*written{nil}, nil
	}
	return nil, err
}

func sendMany(ctx context.Context, q db.DBTX, statements []*statement, at conn.Level) ([]*written, error) {
	found, err := queries.MessageAppend(ctx, q, manyParams(statements, at))
	if err != nil {
		return nil, err
	}
	bySession := make(map[repo.ID]*db.MessageAppendRow, len(found))
	for i := range found {
		bySession[found[i].SessionID.Bytes] = &found[i]
	}
	answers := make([]*written, len(statements))
	for i, s := range statements {
		if row := bySession[s.sessionID()]; row != nil {
			answers[i] = &written{place[repo.ID]{s.sessionID(), row.Hint, row.NextSequence - int64(s.size()), row.NextSequence}, row.UpdatedAt}
		}
	}
	return answers, nil
}

// sendLocked sends a statement behind one that waits for the counter row, in one round trip.
func sendLocked(ctx context.Context, q db.DBTX, s *statement, at conn.Level) (answer *written, err error) {
	s.hint = pgtype.TID{}
	answers, err := conn.After(ctx, q,
		func(q db.DBTX) error {
			if _, err := queries.SessionLock(ctx, q, toUUID(s.sessionID())); !conn.IsNoRows(err) {
				return err
			}
			return nil // the session may be created before the next statement, which finds it then
		},
		func(q db.DBTX) ([]*written, error) { return sendMany(ctx, q, []*statement{s}, at) })
	if err != nil {
		return nil, err
	}
	return answers[0], nil
}

// anySequence is used for an append that expects no sequence.
const anySequence = -1

func manyParams(statements []*statement, at conn.Level) db.MessageAppendParams {
	total := 0
	for _, s := range statements {
		total += s.size()
	}
	params := db.MessageAppendParams{
		CheckIds:   slices.ContainsFunc(statements, func(s *statement) bool { return s.checkIDs }),
		AtAnyLevel: at == conn.AtAnyLevel,
		Rewound:    statements[0].rewound,
		SessionIds: make([]pgtype.UUID, 0, len(statements)),
		Sizes:      make([]int64, 0, len(statements)),
		Owners:     make([]pgtype.UUID, 0, total),
		Places:     make([]int64, 0, total),
	}
	c := newColumns(total)
	for _, s := range statements {
		owner, size := toUUID(s.sessionID()), int64(s.size())
		for _, a := range s.appends {
			if s.rewound {
				c.follow(a.outcome.follows)
			}
			c.add(a.messages...)
		}
		for place := size; place > 0; place-- {
			params.Owners = append(params.Owners, owner)
			params.Places = append(params.Places, place)
		}
		if s.hint.Valid {
			params.Hints = append(params.Hints, s.hint)
		} else {
			params.Unplaced = append(params.Unplaced, owner)
		}
		params.SessionIds = append(params.SessionIds, owner)
		params.Sizes = append(params.Sizes, size)
	}
	if slices.ContainsFunc(statements, func(s *statement) bool { return s.expected() != nil }) {
		params.Expecteds = each(statements, func(s *statement) int64 {
			if expected := s.expected(); expected != nil {
				return *expected
			}
			return anySequence
		})
	}
	if slices.ContainsFunc(statements, func(s *statement) bool { return s.fence != 0 }) {
		params.Fences = each(statements, func(s *statement) int64 { return s.fence })
	}
	params.Ids, params.Roles, params.Contents = c.ids, c.roles, c.contents
	params.Metadatas, params.Payloads, params.OccurredAts = c.metadatas, c.payloads, c.occurredAts
	params.Kinds, params.CallIds = c.kinds, c.callIDs
	params.Tokens, params.Counters, params.Follows = c.tokens, c.counters, c.follows
	return params
}

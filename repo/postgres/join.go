package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
)

// fewStatements is up to where plain statements, each by itself, cost less than a
// joined one, most of whose cost is its own and not the messages'
// (docs/performance.md).
const fewStatements = 3

// sendJoined sends statements, one for each session, in one round trip: as a
// single one, or a few plain ones. It waits for no counter row.
func sendJoined(ctx context.Context, q db.DBTX, statements []*statement) ([]*answerRow, error) {
	if len(statements) <= fewStatements && !slices.ContainsFunc(statements, func(s *statement) bool { return !s.isPlain() }) {
		return sendPlain(ctx, q, statements)
	}
	found, err := queries.MessageAppendMany(ctx, q, joinedParams(statements))
	if err != nil {
		return nil, err
	}
	bySession := make(map[repo.ID]*answerRow, len(found))
	for i := range found {
		row := &found[i]
		bySession[row.SessionID.Bytes] = &answerRow{
			db.MessageAppendRow{NextSequence: row.NextSequence, Known: &row.Known, CreatedAt: row.CreatedAt}, row.Held,
		}
	}
	rows := make([]*answerRow, len(statements))
	for i, s := range statements {
		rows[i] = bySession[s.sessionID()] // nil: there is no session
	}
	return rows, nil
}

// isPlain reports whether the statement is one message about which nothing need
// be asked. Its own statement does not tell a locked row from a missing session:
// what it skipped once is not plain.
func (s *statement) isPlain() bool {
	a := s.tasks[0].Item
	return len(s.tasks) == 1 && len(a.messages) == 1 && a.expected == nil && !s.checkIDs && !a.skipped
}

// sendPlain sends plain statements.
func sendPlain(ctx context.Context, q db.DBTX, statements []*statement) ([]*answerRow, error) {
	params := make([]db.MessageAppendOneParams, len(statements))
	for i, s := range statements {
		m := &s.tasks[0].Item.messages[0]
		params[i] = db.MessageAppendOneParams{
			SessionID:  toUUID(s.sessionID()),
			ID:         toUUID(m.ID),
			Role:       string(m.Role),
			Content:    m.Content,
			Metadata:   string(m.Metadata),
			Payload:    m.Payload,
			OccurredAt: m.OccurredAt,
		}
	}
	rows := make([]*answerRow, len(statements))
	results := queries.MessageAppendOne(ctx, q, params)
	var failure error
	results.QueryRow(func(i int, row db.MessageAppendOneRow, err error) {
		switch {
		case err == nil:
			rows[i] = &answerRow{MessageAppendRow: db.MessageAppendRow{NextSequence: row.Sequence, CreatedAt: &row.CreatedAt}}
		case isNoRows(err):
			rows[i] = &answerRow{held: true}
		case failure == nil:
			failure = err
		}
	})
	// The rows come before the commit. An error of the commit shows only here.
	if err := results.Close(); failure == nil {
		failure = err
	}
	return rows, failure
}

// anySequence stands for an append that expects none.
const anySequence = -1

func joinedParams(statements []*statement) db.MessageAppendManyParams {
	total := 0
	for _, s := range statements {
		total += s.size()
	}
	params := db.MessageAppendManyParams{
		CheckIds:   slices.ContainsFunc(statements, func(s *statement) bool { return s.checkIDs }),
		SessionIds: make([]pgtype.UUID, 0, len(statements)),
		Sizes:      make([]int64, 0, len(statements)),
		Expecteds:  make([]int64, 0, len(statements)),
		Owners:     make([]pgtype.UUID, 0, total),
		Places:     make([]int64, 0, total),
	}
	c := newColumns(total)
	for _, s := range statements {
		owner, place := toUUID(s.sessionID()), int64(0)
		for _, t := range s.tasks {
			c.addAll(t.Item.messages)
			for range t.Item.messages {
				params.Owners = append(params.Owners, owner)
				params.Places = append(params.Places, place)
				place++
			}
		}
		expected := int64(anySequence)
		if e := s.expected(); e != nil {
			expected = *e
		}
		params.Expecteds = append(params.Expecteds, expected)
		params.SessionIds = append(params.SessionIds, owner)
		params.Sizes = append(params.Sizes, place)
	}
	params.Ids, params.Roles, params.Contents = c.ids, c.roles, c.contents
	params.Metadatas, params.Payloads, params.OccurredAts = c.metadatas, c.payloads, c.occurredAts
	return params
}

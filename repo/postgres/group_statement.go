package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
)

// sendGroup sends statements, one for each session, as the cheapest single statement
// that can replace them (docs/performance.md). It never waits for a counter row.
func (g *group) sendGroup(q alone, statements []*statement) ([]*answerRow, error) {
	// These check the level themselves, so that none has to be set before them.
	var guarded db.DBTX = q.conn
	if g.setsLevel.Load() {
		guarded = q
	}
	alone, plain := len(statements) == 1 && statements[0].size() == 1, !slices.ContainsFunc(statements, (*statement).isPeculiar)
	switch {
	case alone && (plain || statements[0].isNamed()):
		rows, err := sendOne(g.ctx, guarded, statements[0])
		if err == nil && rows[0].held && !plain { // or something else, which the other one tells
			return g.sendMany(q, statements)
		}
		return rows, err
	case plain:
		return sendPlain(g.ctx, guarded, statements)
	}
	return g.sendMany(q, statements)
}

// isPeculiar reports whether the statement has ids or sequences to look up. The statements for other appends cannot tell a locked row from a
// missing session, or from a token that is not the latest, so an append that they have skipped once is peculiar.
func (s *statement) isPeculiar() bool { return s.checkIDs || !s.isNamed() }

// isNamed reports whether the statement is peculiar for its ids at most.
func (s *statement) isNamed() bool {
	return s.expected() == nil && !slices.ContainsFunc(s.tasks, func(t *task) bool {
		return !t.Item.skipped.IsZero()
	})
}

func (g *group) sendMany(q db.DBTX, statements []*statement) ([]*answerRow, error) {
	found, err := queries.MessageAppendMany(g.ctx, q, manyParams(statements))
	if err != nil {
		return nil, err
	}
	bySession := make(map[repo.ID]*answerRow, len(found))
	for i := range found {
		row := &found[i]
		if row.OtherLevel {
			g.setsLevel.Store(true)
		}
		bySession[row.SessionID.Bytes] = &answerRow{
			MessageAppendRow: db.MessageAppendRow{
				NextSequence: row.NextSequence, Known: &row.Known, Admitted: row.Admitted, Latest: row.Latest, CreatedAt: row.CreatedAt,
			},
			held:     row.Held,
			patience: patienceOf(row.LockTimeout),
		}
	}
	rows := make([]*answerRow, len(statements))
	for i, s := range statements {
		rows[i] = bySession[s.sessionID()] // nil: there is no session
	}
	return rows, nil
}

func sendPlain(ctx context.Context, q db.DBTX, statements []*statement) ([]*answerRow, error) {
	found, err := queries.MessageAppendPlain(ctx, q, plainParams(statements))
	if err != nil {
		return nil, err
	}
	bySession := make(map[repo.ID]*db.MessageAppendPlainRow, len(found))
	for i := range found {
		bySession[found[i].SessionID.Bytes] = &found[i]
	}
	rows := make([]*answerRow, len(statements))
	for i, s := range statements {
		rows[i] = &answerRow{held: true}
		if row := bySession[s.sessionID()]; row != nil {
			rows[i] = plainAnswer(row.NextSequence-int64(s.size()), &row.UpdatedAt)
		}
	}
	return rows, nil
}

func sendOne(ctx context.Context, q db.DBTX, s *statement) ([]*answerRow, error) {
	m := &s.tasks[0].Item.messages[0]
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
		Fence:      s.fence,
		CheckID:    s.checkIDs,
	})
	switch {
	case err == nil:
		return []*answerRow{plainAnswer(row.Sequence, &row.CreatedAt)}, nil
	case isNoRows(err):
		return []*answerRow{{held: true}}, nil
	}
	return nil, err
}

func plainAnswer(first int64, createdAt *time.Time) *answerRow {
	return &answerRow{MessageAppendRow: db.MessageAppendRow{NextSequence: first, CreatedAt: createdAt}}
}

// anySequence is used for an append that expects no sequence.
const anySequence = -1

func manyParams(statements []*statement) db.MessageAppendManyParams {
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
		owner, size := toUUID(s.sessionID()), int64(s.size())
		for _, t := range s.tasks {
			c.add(t.Item.messages...)
		}
		for place := size; place > 0; place-- {
			params.Owners = append(params.Owners, owner)
			params.Places = append(params.Places, place)
		}
		expected := int64(anySequence)
		if e := s.expected(); e != nil {
			expected = *e
		}
		params.Expecteds = append(params.Expecteds, expected)
		params.SessionIds = append(params.SessionIds, owner)
		params.Sizes = append(params.Sizes, size)
	}
	if slices.ContainsFunc(statements, func(s *statement) bool { return s.fence != 0 }) {
		params.Fences = each(statements, func(s *statement) int64 { return s.fence })
	}
	params.Ids, params.Roles, params.Contents = c.ids, c.roles, c.contents
	params.Metadatas, params.Payloads, params.OccurredAts = c.metadatas, c.payloads, c.occurredAts
	params.Kinds, params.CallIds = c.kinds, c.callIDs
	return params
}

// plainParams are those of manyParams that a plain statement has.
func plainParams(statements []*statement) db.MessageAppendPlainParams {
	many := manyParams(statements)
	return db.MessageAppendPlainParams{
		SessionIds: many.SessionIds, Sizes: many.Sizes, Fences: many.Fences, Owners: many.Owners, Places: many.Places,
		Ids: many.Ids, Roles: many.Roles, Contents: many.Contents,
		Metadatas: many.Metadatas, Payloads: many.Payloads, Kinds: many.Kinds, CallIds: many.CallIds,
		OccurredAts: many.OccurredAts,
	}
}

package postgres

import (
	"context"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
)

// writePlain is writeMessages by plain statements: see conn.Conns.Distributed. The time is that of the lock, which nobody else has
// had since.
func (l *ledger) writePlain(ctx context.Context, p *conn.Pipeline) {
	var advance db.MessageAdvanceParams
	var insert db.MessageInsertParams
	columns := newColumns(0)
	for _, session := range l.sessions {
		counter := l.counters[session]
		advance.SessionIds = append(advance.SessionIds, toUUID(session))
		advance.NextSequences = append(advance.NextSequences, counter.next)
		advance.UpdatedAts = append(advance.UpdatedAts, counter.updated)
		for _, a := range counter.appends {
			columns.follow(a.outcome.follows)
			columns.add(a.messages...)
			for i := range a.messages {
				insert.Owners = append(insert.Owners, toUUID(session))
				insert.Sequences = append(insert.Sequences, a.outcome.first+int64(i))
			}
		}
	}
	insert.Ids, insert.Roles, insert.Contents = columns.ids, columns.roles, columns.contents
	insert.Metadatas, insert.Payloads, insert.OccurredAts = columns.metadatas, columns.payloads, columns.occurredAts
	insert.Kinds, insert.CallIds = columns.kinds, columns.callIDs
	insert.Tokens, insert.Counters, insert.Follows = columns.tokens, columns.counters, columns.follows
	p.Add(func(q db.DBTX) error {
		rows, err := queries.MessageAdvance(ctx, q, advance)
		return conn.Whole(rows, len(advance.SessionIds), err)
	})
	p.Add(func(q db.DBTX) error {
		rows, err := queries.MessageInsert(ctx, q, insert)
		if err = conn.Whole(rows, len(insert.Owners), err); err != nil {
			return err
		}
		for _, session := range l.sessions {
			counter := l.counters[session]
			for _, a := range counter.appends {
				a.outcome.createdAt = &counter.updated
			}
		}
		return nil
	})
}

package bench

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// BenchmarkStream reads a whole session, through the store and with a bare SELECT
// into the same structs. Allocations are per session of 50,000 messages.
func BenchmarkStream(b *testing.B) {
	const length = 50_000
	store := pgtest.NewStore(b, agentstore.Options{})
	id := newLongSession(b, store, length)
	for _, way := range []struct {
		name string
		read func(context.Context, *agentstore.Store, repo.ID) (int, error)
	}{{"store", stream}, {"select", selectAll}} {
		b.Run("way="+way.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				count, err := way.read(b.Context(), store, id)
				if err != nil || count != length {
					b.Fatalf("%d messages: %v", count, err)
				}
			}
			b.ReportMetric(float64(b.N*length)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}

func stream(ctx context.Context, store *agentstore.Store, id repo.ID) (count int, err error) {
	for _, err := range store.Sessions().Messages(ctx, id, 0) {
		if err != nil {
			return count, err
		}
		count++
	}
	return count, nil
}

func selectAll(ctx context.Context, store *agentstore.Store, id repo.ID) (count int, err error) {
	rows, err := store.Pool().Query(ctx, `SELECT session_id, sequence, id, role, content, metadata, payload, occurred_at, created_at, kind, call_id
		FROM messages WHERE session_id = $1 ORDER BY sequence`, pgtype.UUID{Bytes: id, Valid: true})
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var row db.Message
		if err := rows.Scan(&row.SessionID, &row.Sequence, &row.ID, &row.Role, &row.Content, &row.Metadata,
			&row.Payload, &row.OccurredAt, &row.CreatedAt, &row.Kind, &row.CallID); err != nil {
			return count, err
		}
		read = repo.Message{
			SessionID: row.SessionID.Bytes, ID: row.ID.Bytes, Sequence: row.Sequence, Role: repo.Role(row.Role),
			Content: row.Content, Metadata: row.Metadata, Payload: row.Payload, CreatedAt: row.CreatedAt.UTC(),
		}
		count++
	}
	return count, rows.Err()
}

// read keeps the compiler from removing unused results.
var read repo.Message

// BenchmarkPage reads 100 messages at the end of sessions of several lengths.
func BenchmarkPage(b *testing.B) {
	const size = 100
	store := pgtest.NewStore(b, agentstore.Options{})
	for _, length := range []int{1000, 100_000} {
		id := newLongSession(b, store, length)
		for _, page := range []struct {
			name string
			read func() ([]repo.Message, error)
		}{
			{"from", func() ([]repo.Message, error) {
				return store.Sessions().MessagesFrom(b.Context(), id, int64(length-size), size)
			}},
			{"last", func() ([]repo.Message, error) {
				return store.Sessions().LastMessages(b.Context(), id, size)
			}},
		} {
			b.Run(fmt.Sprintf("page=%s/length=%d", page.name, length), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					messages, err := page.read()
					if err != nil || len(messages) != size {
						b.Fatalf("%d messages: %v", len(messages), err)
					}
				}
			})
		}
	}
}

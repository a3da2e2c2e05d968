package bench

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// between sends a statement between two others, in one round trip.
type between struct {
	conn          *pgx.Conn
	before, after string
}

func (w between) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	whole := &pgx.Batch{}
	if w.before != "" {
		whole.Queue(w.before)
	}
	whole.QueuedQueries = append(whole.QueuedQueries, batch.QueuedQueries...)
	if w.after != "" {
		whole.Queue(w.after)
	}
	results := w.conn.SendBatch(ctx, whole)
	if w.before != "" {
		_, _ = results.Exec()
	}
	return results
}

func (w between) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) { panic("not used") }

func (w between) Query(context.Context, string, ...any) (pgx.Rows, error) { panic("not used") }

func (w between) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if w.before == "" {
		return w.conn.QueryRow(ctx, sql, args...)
	}
	batch := &pgx.Batch{}
	batch.Queue(sql, args...)
	results := w.SendBatch(ctx, batch)
	return lastRow{results.QueryRow(), results}
}

type lastRow struct {
	pgx.Row
	results pgx.BatchResults
}

func (r lastRow) Scan(dest ...any) error {
	err := r.Row.Scan(dest...)
	if closed := r.results.Close(); err == nil {
		err = closed
	}
	return err
}

// BenchmarkIsolation compares ways to run a single statement at read committed: as it
// is, which relies on the default; after SET; and between BEGIN and COMMIT. They
// alternate on one connection, so that other load on the machine affects all of them.
// It reports the median of each.
func BenchmarkIsolation(b *testing.B) {
	ctx := b.Context()
	conn := pgtest.Connect(b, pgtest.NewDatabase(b))
	queries, id := db.New(), pgtype.UUID{Bytes: repo.NewID(), Valid: true}
	if _, err := queries.SessionCreate(ctx, conn, db.SessionCreateParams{ID: id, Namespace: "local", Metadata: "{}"}); err != nil {
		b.Fatal(err)
	}
	ways := []struct {
		name string
		q    between
	}{
		{"alone", between{conn, "", ""}},
		{"set", between{conn, "SET transaction_isolation TO 'read committed'", ""}},
		{"begin", between{conn, "BEGIN ISOLATION LEVEL READ COMMITTED", "COMMIT"}},
	}
	for _, operation := range []struct {
		name string
		run  func(q between) error
	}{
		{"append", func(q between) error {
			_, err := queries.MessageAppendOne(ctx, q, db.MessageAppendOneParams{
				SessionID: id, ID: pgtype.UUID{Bytes: repo.NewID(), Valid: true}, Role: "user", Content: "hello", Metadata: "{}",
			})
			return err
		}},
		{"get", func(q between) error { _, err := queries.SessionGet(ctx, q, id); return err }},
	} {
		b.Run(operation.name, func(b *testing.B) {
			took := make([][]time.Duration, len(ways))
			for b.Loop() {
				for i, way := range ways {
					start := time.Now()
					if err := operation.run(way.q); err != nil {
						b.Fatal(err)
					}
					took[i] = append(took[i], time.Since(start))
				}
			}
			for i, way := range ways {
				slices.Sort(took[i])
				median := took[i][len(took[i])/2]
				b.ReportMetric(float64(median.Nanoseconds())/1000, way.name+"-p50-µs")
				if i > 0 {
					b.ReportMetric(float64(median)/float64(took[0][len(took[0])/2]), way.name+"/alone")
				}
			}
		})
	}
}

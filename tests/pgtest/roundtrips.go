package pgtest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

// RoundTrips is a tracer that counts round trips to the server, and their statements, without those that announce, beside the
// operations, what was committed, remove what has expired or was deleted, or prepare a new connection.
type RoundTrips struct {
	Count, Statements atomic.Int64

	mu   sync.Mutex
	sent []string // the first lines of those of an operation
}

// operationKey is in the contexts of operations.
type operationKey struct{}

// Of makes an operation, and returns the first lines of its round trips.
func (r *RoundTrips) Of(ctx context.Context, run func(context.Context) error) ([]string, error) {
	r.mu.Lock()
	r.sent = nil
	r.mu.Unlock()
	err := run(context.WithValue(ctx, operationKey{}, true))
	return r.Sent(), err
}

// Sent returns the first lines of the round trips since the last operation began.
func (r *RoundTrips) Sent() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.sent)
}

func (r *RoundTrips) note(sql string, statements int) {
	r.Count.Add(1)
	r.Statements.Add(int64(statements))
	line, _, _ := strings.Cut(sql, "\n")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = append(r.sent, line)
}

// TraceQueryStart implements pgx.QueryTracer.
func (r *RoundTrips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if (ctx.Value(operationKey{}) != nil || !sweeps(data.SQL)) && !strings.HasPrefix(data.SQL, "SELECT set_config('enable_seqscan'") {
		r.note(data.SQL, 1)
	}
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (r *RoundTrips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements pgx.BatchTracer.
func (r *RoundTrips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	queued := data.Batch.QueuedQueries
	swept := slices.ContainsFunc(queued, func(q *pgx.QueuedQuery) bool { return sweeps(q.SQL) })
	if (!swept || ctx.Value(operationKey{}) != nil) && !strings.HasPrefix(queued[len(queued)-1].SQL, "-- name: LiveNotify ") {
		r.note(queued[0].SQL, len(queued))
	}
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer.
func (r *RoundTrips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (r *RoundTrips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// sweeps says whether a statement removes what has expired, or what a deletion has left.
func sweeps(sql string) bool {
	return strings.HasPrefix(sql, "-- name: StreamExpire ") || strings.HasPrefix(sql, "-- name: SessionRemove ")
}

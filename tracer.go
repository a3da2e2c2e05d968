package agentstore

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/multitracer"
)

// seesBatches returns a tracer that also sees the statements of batches, in which
// the store sends most of its statements.
func seesBatches(tracer pgx.QueryTracer) pgx.QueryTracer {
	if _, ok := tracer.(pgx.BatchTracer); ok {
		return tracer
	}
	return multitracer.New(tracer, batchTracer{tracer})
}

// batchTracer reports the statements of a batch to a tracer: all begin when the batch
// is sent, and each ends with its answer.
type batchTracer struct{ tracer pgx.QueryTracer }

// batchKey is the context key of a batch's statements under way: a pointer to the
// contexts that the tracer returned for them.
type batchKey struct{}

func (batchTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx // the tracer sees single statements itself
}

func (batchTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (b batchTracer) TraceBatchStart(ctx context.Context, conn *pgx.Conn,
	data pgx.TraceBatchStartData,
) context.Context {
	var started []context.Context
	for _, query := range data.Batch.QueuedQueries {
		started = append(started, b.tracer.TraceQueryStart(ctx, conn,
			pgx.TraceQueryStartData{SQL: query.SQL, Args: query.Arguments}))
	}
	return context.WithValue(ctx, batchKey{}, &started)
}

func (b batchTracer) TraceBatchQuery(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchQueryData) {
	b.end(ctx, conn, pgx.TraceQueryEndData{CommandTag: data.CommandTag, Err: data.Err})
}

func (b batchTracer) TraceBatchEnd(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchEndData) {
	// Statements without an answer get the batch's error.
	for b.end(ctx, conn, pgx.TraceQueryEndData{Err: data.Err}) {
	}
}

// end ends the next statement. It returns false if all have ended.
func (b batchTracer) end(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryEndData) bool {
	started, ok := ctx.Value(batchKey{}).(*[]context.Context)
	if !ok || len(*started) == 0 {
		return false
	}
	b.tracer.TraceQueryEnd((*started)[0], conn, data) //nolint:contextcheck // the context that the tracer returned for it
	*started = (*started)[1:]
	return true
}

package postgres

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

// roundTrips counts what is sent to the server and waited for.
type roundTrips struct{ count atomic.Int64 }

func (r *roundTrips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	r.count.Add(1)
	return ctx
}
func (r *roundTrips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (r *roundTrips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	r.count.Add(1)
	return ctx
}
func (r *roundTrips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (r *roundTrips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// Every operation has its budget of round trips, whatever it carries.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	tracer := &roundTrips{}
	store := openStore(t, agentstore.Options{Tracer: tracer, MaxConns: 1})
	sessions := store.Sessions()
	id := newSession(t, store)
	other := newSession(t, store)
	batch := make([]repo.NewMessage, 1000)
	for i := range batch {
		batch[i] = user("message")
	}
	known := user("known")
	known.ID = repo.NewID()
	var document bytes.Buffer
	budget := repo.CostUnit

	// Whether the months of the audit trail are there is asked once, before the first
	// transaction.
	if err := store.InTx(t.Context(), func(context.Context, repo.Repositories) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, operation := range []struct {
		name   string
		budget int64
		run    func(ctx context.Context) error
	}{
		{"create", 1, func(ctx context.Context) error { _, err := sessions.Create(ctx, repo.NewSession{}); return err }},
		{"create again", 2, func(ctx context.Context) error { _, err := sessions.Create(ctx, repo.NewSession{ID: id}); return err }},
		{"get", 1, func(ctx context.Context) error { _, err := sessions.Get(ctx, id); return err }},
		{"list", 1, func(ctx context.Context) error {
			_, err := sessions.List(ctx, repo.SessionFilter{}, repo.Page{Limit: 100})
			return err
		}},
		{"update", 1, func(ctx context.Context) error {
			_, err := sessions.Update(ctx, id, repo.SessionUpdate{Budget: &budget})
			return err
		}},
		{"add usage", 1, func(ctx context.Context) error {
			_, err := sessions.AddUsage(ctx, id, repo.NewUsage{InputTokens: 1, Cost: 1})
			return err
		}},
		{"append", 1, func(ctx context.Context) error { _, err := sessions.Append(ctx, id, user("x")); return err }},
		{"append with an id", 1, func(ctx context.Context) error { _, err := sessions.Append(ctx, id, known); return err }},
		{"append it again", 2, func(ctx context.Context) error { _, err := sessions.Append(ctx, id, known); return err }},
		{"append 1,000", 1, func(ctx context.Context) error { _, err := sessions.Append(ctx, id, batch...); return err }},
		{"append at", 1, func(ctx context.Context) error { _, err := sessions.AppendAt(ctx, id, 1002, user("x")); return err }},
		{"message", 1, func(ctx context.Context) error { _, err := sessions.Message(ctx, id, known.ID); return err }},
		{"messages from", 1, func(ctx context.Context) error { _, err := sessions.MessagesFrom(ctx, id, 0, 1000); return err }},
		{"messages before", 1, func(ctx context.Context) error {
			_, err := sessions.MessagesBefore(ctx, id, 1000, 1000)
			return err
		}},
		{"last messages", 1, func(ctx context.Context) error { _, err := sessions.LastMessages(ctx, id, 100); return err }},
		// begin, append, commit
		{"append in a transaction", 3, func(ctx context.Context) error {
			return store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
				_, err := tx.Sessions().Append(ctx, id, user("x"))
				return err
			})
		}},
		// chunks of 100, 200, 400, 800
		{"export 1,004 messages", 5, func(ctx context.Context) error { return sessions.Export(ctx, id, &document) }},
		// begin, lock, delete, commit
		{"delete", 4, func(ctx context.Context) error { _, err := sessions.Delete(ctx, id); return err }},
		// begin, session, two chunks of up to 1,000, commit
		{"import 1,004 messages", 5, func(ctx context.Context) error {
			_, err := sessions.Import(ctx, bytes.NewReader(document.Bytes()))
			return err
		}},
		{"delete another", 4, func(ctx context.Context) error { _, err := sessions.Delete(ctx, other); return err }},
	} {
		before := tracer.count.Load()
		if err := operation.run(t.Context()); err != nil {
			t.Fatalf("%s: %v", operation.name, err)
		}
		if got := tracer.count.Load() - before; got != operation.budget {
			t.Errorf("%s: %d round trips, budget %d", operation.name, got, operation.budget)
		}
	}
}

package postgres

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// plainTracer is a tracer without support for batches.
type plainTracer struct {
	mu           sync.Mutex
	begun, ended []string
	failed       int
}

type tracedKey struct{}

func (p *plainTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	name, _, _ := strings.Cut(strings.TrimPrefix(data.SQL, "-- name: "), " ")
	p.begun = append(p.begun, name)
	return context.WithValue(ctx, tracedKey{}, name)
}

func (p *plainTracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = append(p.ended, ctx.Value(tracedKey{}).(string))
	if data.Err != nil {
		p.failed++
	}
}

// A tracer without support for batches still sees each statement begin and end.
func TestTracerOfStatements(t *testing.T) {
	t.Parallel()
	tracer := &plainTracer{}
	store := pgtest.NewStore(t, agentstore.Options{Tracer: tracer, MaxConns: 1})
	id := pgtest.NewSession(t, store)
	if _, err := store.Sessions().Append(t.Context(), id, user("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Sessions().MessagesFrom(t.Context(), id, 0, 10); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = store.Sessions().Get(ended, id)
	if _, err := store.Sessions().Get(t.Context(), repo.NewID()); err == nil {
		t.Error("no error")
	}
	tracer.mu.Lock()
	defer tracer.mu.Unlock()
	if begun, ended := strings.Join(tracer.begun, " "), strings.Join(tracer.ended, " "); begun != ended {
		t.Errorf("begun:\n%s\nended:\n%s", begun, ended)
	}
	for _, name := range []string{"SessionCreate", "MessageAppend", "MessageListFrom", "SessionGet"} {
		if !strings.Contains(strings.Join(tracer.ended, " "), name) {
			t.Errorf("%s was not seen", name)
		}
	}
	if tracer.failed > 1 {
		t.Errorf("%d statements failed", tracer.failed)
	}
}

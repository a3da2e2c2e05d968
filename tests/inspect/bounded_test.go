package inspect

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/inspect"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// interrupt is what Ctrl-C sends.
var interrupt = os.Interrupt

// counter counts statements, and the rows that they return or write.
type counter struct{ statements, rows atomic.Int64 }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.statements.Add(1)
	return ctx
}

func (c *counter) TraceQueryEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	c.rows.Add(data.CommandTag.RowsAffected())
}

func newPages(t *testing.T, store repo.Store, change func(*inspect.Options)) http.Handler {
	t.Helper()
	options := inspect.Options{Timeout: time.Hour, Authorize: func(*http.Request) (inspect.Access, error) {
		return inspect.Access{Viewer: "ada", AllNamespaces: true, Contents: true}, nil
	}}
	if change != nil {
		change(&options)
	}
	pages, err := inspect.Handler(store, options)
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

func get(pages http.Handler, path string) int {
	w := httptest.NewRecorder()
	pages.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code
}

// TestBounded: a first page takes as many statements with much in the database as with little, and their rows are bounded.
// That of usage reads the counters of its days.
// Guarantee: Inspector: A page except usage takes at most 12 statements and 300 rows.
func TestBounded(t *testing.T) {
	t.Parallel()
	count := new(counter)
	store := pgtest.OpenStore(t, pgtest.NewDatabase(t), agentstore.Options{Tracer: count})
	pages := newPages(t, store, nil)
	ctx := t.Context()
	if _, err := store.Actions().Create(ctx, repo.NewAction{Name: "work", ActionDefinition: repo.ActionDefinition{Reusable: true}}); err != nil {
		t.Fatal(err)
	}
	var session, plan repo.ID
	fill := func(sessions, messages int) {
		t.Helper()
		for i := range sessions {
			made, err := store.Sessions().Create(ctx, repo.NewSession{Owner: "somebody"})
			if err != nil {
				t.Fatal(err)
			}
			batch := make([]repo.NewMessage, messages)
			for j := range batch {
				batch[j] = repo.NewMessage{Role: repo.RoleUser, Content: fmt.Sprint(j)}
			}
			if _, err := store.Sessions().Append(ctx, made.ID, batch[:max(1, messages/(i+1))]...); err != nil {
				t.Fatal(err)
			}
			used, err := store.Plans().Use(ctx, "work", repo.UseAction{SessionID: made.ID})
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				session, plan = made.ID, used.ID
			}
		}
	}
	measure := func() map[string][2]int64 {
		taken := map[string][2]int64{}
		for name, path := range map[string]string{
			"sessions": "/sessions", "owner": "/sessions?owner=somebody", "conversation": "/sessions/" + session.String(), "middle": "/sessions/" + session.String() + "?from=100",
			"plans": "/plans", "plan": "/plans/" + plan.String(), "plans of a session": "/plans?session=" + session.String(), "leases": "/leases", "audit": "/audit",
			"search": "/search?q=somebody", "namespaces": "/namespaces", "usage": "/usage", "health": "/health",
		} {
			get(pages, path) // what a process looks up once
			// The fewest of three: a connection that is made meanwhile has statements of its own.
			for try := range 3 {
				count.statements.Store(0)
				count.rows.Store(0)
				if code := get(pages, path); code != http.StatusOK {
					t.Errorf("%s: status %d", path, code)
				}
				if now := [2]int64{count.statements.Load(), count.rows.Load()}; try == 0 || now[0] < taken[name][0] {
					taken[name] = now
				}
			}
		}
		return taken
	}
	fill(2, 10)
	few := measure()
	fill(pgtest.Choose(2_000, 130), pgtest.Choose(10_000, 1_000))
	for name, much := range measure() {
		if much[0] > 12 || much[1] > 300 {
			t.Errorf("%s: %d statements and %d rows, and with little %d and %d", name, much[0], much[1], few[name][0], few[name][1])
		}
	}
}

// TestLookingStopsNobody: while a table cannot be read, pages about it end in time, and writers go on.
func TestLookingStopsNobody(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: 5})
	pages := newPages(t, store, func(o *inspect.Options) { o.AtOnce, o.Timeout = 2, 500*time.Millisecond }) // short: the table stays locked
	session := pgtest.NewSession(t, store)
	pool := pgtest.NewPool(t, databaseURL)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), "LOCK TABLE leases"); err != nil {
		t.Fatal(err)
	}
	answers := make(chan int)
	const viewers = 10
	for range viewers {
		go func() { answers <- get(pages, "/leases") }()
	}
	for i := range 20 {
		if _, err := store.Sessions().Append(t.Context(), session, repo.NewMessage{Role: repo.RoleUser, Content: fmt.Sprint(i)}); err != nil {
			t.Error(err)
		}
	}
	for range viewers {
		if code := <-answers; code != http.StatusServiceUnavailable {
			t.Errorf("status %d", code)
		}
	}
}

// BenchmarkFirstPage takes the time of first pages with many messages in the database, in a full run 10,000,000:
// AGENTSTORE_TEST_FULL=1 go run ./tests/cmd/disposable -durable go test -run '^$' -bench FirstPage -timeout 60m ./tests/inspect
func BenchmarkFirstPage(b *testing.B) {
	store := pgtest.OpenStore(b, pgtest.NewDatabase(b), agentstore.Options{})
	pages, err := inspect.Handler(store, inspect.Options{Authorize: func(*http.Request) (inspect.Access, error) {
		return inspect.Access{Viewer: "ada", AllNamespaces: true, Contents: true}, nil
	}})
	if err != nil {
		b.Fatal(err)
	}
	batch := make([]repo.NewMessage, 10_000)
	for i := range batch {
		batch[i] = repo.NewMessage{Role: repo.RoleUser, Content: "a message of a conversation, as long as many are in practice"}
	}
	var session repo.ID
	for range pgtest.Choose(1_000, 10) {
		session = pgtest.NewSession(b, store)
		if _, err := store.Sessions().Append(b.Context(), session, batch...); err != nil {
			b.Fatal(err)
		}
	}
	for name, path := range map[string]string{
		"Sessions": "/sessions", "Conversation": "/sessions/" + session.String(), "Middle": "/sessions/" + session.String() + "?from=5000", "Plans": "/plans", "Audit": "/audit", "Health": "/health",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if code := get(pages, path); code != http.StatusOK {
					b.Fatalf("status %d", code)
				}
			}
		})
	}
}

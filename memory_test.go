package agentstore

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/observe"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

// All stores opened by one name share their data, and each is closed separately.
// After the last Close, the next Open gets an empty store.
func TestMemorySharedByName(t *testing.T) {
	first, err := Open(t.Context(), "memory://shared", Options{})
	if err != nil {
		t.Fatal(err)
	}
	session, err := first.Sessions().Create(t.Context(), repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			store, err := Open(context.Background(), "memory://shared", Options{})
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := store.Sessions().Append(t.Context(), session.ID, repo.NewMessage{Role: repo.RoleUser, Content: "x"}); err != nil {
				t.Error(err)
			}
			for range 2 {
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			}
			if _, err := store.Sessions().Get(t.Context(), session.ID); !errors.Is(err, repo.ErrClosed) {
				t.Errorf("a closed store gave %v", err)
			}
		})
	}
	all.Wait()
	got, err := first.Sessions().Get(t.Context(), session.ID)
	if err != nil || got.MessageCount != 200 {
		t.Errorf("%d messages, %v", got.MessageCount, err)
	}
	other, err := Open(t.Context(), "memory://other", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if _, err := other.Sessions().Get(t.Context(), session.ID); !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("another name gave %v", err)
	}
	elsewhere, err := Open(t.Context(), "memory://shared", Options{Schema: "other"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := elsewhere.Sessions().Get(t.Context(), session.ID); !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("another schema gave %v", err)
	}
	if err := errors.Join(elsewhere.Ping(t.Context()), elsewhere.Close(), first.Close()); err != nil {
		t.Fatal(err)
	}
	if err := first.Ping(t.Context()); !errors.Is(err, repo.ErrClosed) {
		t.Errorf("Ping after close: %v", err)
	}
	if len(memories.entries) != 1 {
		t.Errorf("%d stores are open", len(memories.entries))
	}
	again, err := Open(t.Context(), "memory://shared", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	if _, err := again.Sessions().Get(t.Context(), session.ID); !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("after the last close: %v", err)
	}
}

func TestMemoryRefuses(t *testing.T) {
	for _, url := range []string{"memory://", "memory:///x", "memory://a b", "memory://a?b=c"} {
		if _, err := Open(t.Context(), url, Options{}); !errors.Is(err, repo.ErrInvalid) {
			t.Errorf("%s gave %v", url, err)
		}
	}
	if _, err := Open(t.Context(), "memory://x", Options{MaxConns: -1}); !errors.Is(err, repo.ErrInvalid) {
		t.Errorf("an invalid option gave %v", err)
	}
}

type noObserver struct{ observe.Observer }

func (noObserver) Begin(ctx context.Context, _ observe.Operation) context.Context { return ctx }
func (noObserver) End(context.Context, observe.Operation, observe.Result)         {}

// A program can change the URL alone: options of the pool are valid, and openers with
// different ones share a store.
func TestMemoryTakesAllOptions(t *testing.T) {
	full := Options{
		MaxConns: 4, ConnectTimeout: time.Minute, StatementTimeout: time.Minute, LockTimeout: time.Minute,
		Schema: "agents", Tracer: noTracer{}, Logger: slog.New(slog.DiscardHandler), Migrate: true, WithoutSessionAudit: true,
		Clock: memory.NewClock(time.Now()), CountTokens: func(repo.NewMessage) int64 { return 1 }, TokenCounter: "one", Observer: noObserver{},
	}
	for i, value := 0, reflect.ValueOf(full); i < value.NumField(); i++ {
		if value.Field(i).IsZero() {
			t.Errorf("%s is not set here", value.Type().Field(i).Name)
		}
	}
	quiet, err := Open(t.Context(), "memory://options", full)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = quiet.Close() }()
	audited, err := Open(t.Context(), "memory://options", Options{Schema: "agents", MaxConns: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = audited.Close() }()
	// Whether sessions are audited is each store's own choice.
	for range 3 {
		if _, err := quiet.Sessions().Create(t.Context(), repo.NewSession{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := audited.Sessions().Create(t.Context(), repo.NewSession{}); err != nil {
		t.Fatal(err)
	}
	count, _, err := quiet.Audit().Count(t.Context(), repo.AuditFilter{}, 0)
	if err != nil || count != 1 {
		t.Errorf("%d entries, %v, want the one of the audited store", count, err)
	}
}

type noTracer struct{}

func (noTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (noTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A store in memory has the clock that its first opener gives it. A database has its server's.
func TestMemoryClock(t *testing.T) {
	clock := memory.NewClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	store, err := Open(t.Context(), "memory://clock", Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	again, err := Open(t.Context(), "memory://clock", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	if created, err := again.Sessions().Create(t.Context(), repo.NewSession{}); err != nil || !created.CreatedAt.Equal(clock.Now()) {
		t.Errorf("created at %v, %v", created.CreatedAt, err)
	}
	if _, err := Open(t.Context(), "memory://clock", Options{Clock: memory.NewClock(clock.Now())}); !errors.Is(err, repo.ErrConflict) {
		t.Errorf("another clock: %v", err)
	}
	var invalid *repo.InvalidError
	_, onDatabase := Open(t.Context(), "postgres://127.0.0.1:1/x", Options{Clock: clock})
	_, onPool := OpenPool(t.Context(), nil, Options{Clock: clock})
	for _, err := range []error{onDatabase, onPool} {
		if !errors.As(err, &invalid) || invalid.Field != "options.Clock" {
			t.Errorf("with a database: %v", err)
		}
	}
}

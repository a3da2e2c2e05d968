package postgres

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// vainWaits counts the groups that waited for a scope in vain: their first statement bounds
// the waits for locks.
type vainWaits struct {
	joinCounter

	vain atomic.Int64
}

type bounded struct{}

func (*vainWaits) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	for _, query := range data.Batch.QueuedQueries {
		if strings.Contains(query.SQL, "-- name: TurnLimitWait") {
			return context.WithValue(ctx, bounded{}, true)
		}
	}
	return ctx
}

func (v *vainWaits) TraceBatchQuery(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	failure, is := errors.AsType[*pgconn.PgError](data.Err)
	if is && failure.Code == "55P03" && ctx.Value(bounded{}) != nil {
		v.vain.Add(1)
	}
}

// Many turns in turn on a scope that somebody holds, each of a new session: the group of turns
// that change shared scopes waits for it when it learns that it is held, and not again for each
// of them, as it did when each turn was new to it. All are made when the scope is free.
func TestStreamOfTurnsOnAHeldScope(t *testing.T) {
	t.Parallel()
	const turns, deadline = 60, 30 * time.Millisecond
	tracer := &vainWaits{}
	store := pgtest.OpenStore(t, pgtest.NewDatabase(t), agentstore.Options{MaxConns: 8, Tracer: tracer})
	add := func(ctx context.Context, scope string) error {
		_, err := store.Sessions().AppendTurn(ctx, repo.Turn{
			SessionID: pgtest.NewSession(t, store),
			Messages:  []repo.NewMessage{user("x")}, State: []repo.StateChange{plusOne(scope, "n")},
		})
		return err
	}
	for _, scope := range []string{"good", "held"} { // which exist then
		if err := add(t.Context(), scope); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	made := make([]error, 4)
	err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		if _, err := tx.State().Change(ctx, []repo.StateChange{plusOne("held", "n")}); err != nil {
			return err
		}
		for range turns {
			timed, cancel := context.WithTimeout(t.Context(), deadline)
			if err := add(timed, "held"); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, repo.ErrUnknownOutcome) {
				t.Errorf("a turn on the held scope: %v", err)
			}
			cancel()
			if err := add(t.Context(), "good"); err != nil {
				t.Error(err)
			}
		}
		for i := range made {
			all.Go(func() { made[i] = add(t.Context(), "held") })
		}
		return nil
	})
	all.Wait()
	if err := errors.Join(append(made, err)...); err != nil {
		t.Fatal(err)
	}
	// One, unless the machine stops this process for a second.
	if vain := tracer.vain.Load(); vain == 0 || vain > turns/4 {
		t.Errorf("%d groups waited for a scope that was known to be held", vain)
	}
	if got := sumOf(t, store, repo.Scope{Name: "good"}, "n"); got != 1+turns {
		t.Errorf("good is %d", got)
	}
	if got := sumOf(t, store, repo.Scope{Name: "held"}, "n"); got < 2+len(made) {
		t.Errorf("held is %d, want at least %d", got, 2+len(made))
	}
}

package postgres

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
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

// Many turns, one after the other, on a scope that is held, each of a new session: the group of turns that
// change shared scopes waits for it when it learns that it is held, and not again for each of them, as it
// did when each turn was new to it. All are made when the scope is free.
func TestStreamOfTurnsOnAHeldScope(t *testing.T) {
	t.Parallel()
	const turns = 60
	tracer := &vainWaits{}
	store := pgtest.OpenStore(t, pgtest.NewDatabase(t), agentstore.Options{MaxConns: 8, Tracer: tracer})
	ids := newSessions(t, store, 2*turns+2)
	add := func(ctx context.Context, n int, scope string) error {
		_, err := store.Sessions().AppendTurn(ctx, repo.Turn{
			SessionID: ids[n], Messages: []repo.NewMessage{user("x")}, State: []repo.StateChange{plusOne(scope, "n")},
		})
		return err
	}
	for i, scope := range []string{"good", "held"} { // which exist then
		if err := add(t.Context(), 2*turns+i, scope); err != nil {
			t.Fatal(err)
		}
	}
	leaves, leave := context.WithCancel(t.Context())
	defer leave()
	var leaving, staying sync.WaitGroup
	left, stayed := make([]error, turns), make([]error, turns)
	err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		if _, err := tx.State().Change(ctx, []repo.StateChange{plusOne("held", "n")}); err != nil {
			return err
		}
		for i := range turns {
			if i%2 == 0 {
				staying.Go(func() { stayed[i] = add(t.Context(), i, "held") })
			} else {
				leaving.Go(func() { left[i] = add(leaves, i, "held") })
			}
			if err := add(await.Context(t), turns+i, "good"); err != nil {
				t.Error(err)
			}
		}
		leave()
		leaving.Wait()
		return nil
	})
	staying.Wait()
	if err := errors.Join(append(stayed, err)...); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < turns; i += 2 {
		if !errors.Is(left[i], context.Canceled) && !errors.Is(left[i], repo.ErrUnknownOutcome) {
			t.Errorf("a turn on the held scope: %v", left[i])
		}
	}
	// A few come before the first wait in vain has ended.
	if vain := tracer.vain.Load(); vain == 0 || vain > turns/4 {
		t.Errorf("%d groups waited for a scope that was known to be held", vain)
	}
	if got := sumOf(t, store, repo.Scope{Name: "good"}, "n"); got != 1+turns {
		t.Errorf("good is %d", got)
	}
	if got := sumOf(t, store, repo.Scope{Name: "held"}, "n"); got < 2+turns/2 {
		t.Errorf("held is %d, want at least %d", got, 2+turns/2)
	}
}

package adk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/adk/v2/session"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/adapters/adk"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A session that is deleted while it is written to is gone: no append, also none that was
// under way, leaves it, an event or a key behind.
func TestDeletedSessionLeavesNoGhost(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	service := adk.NewSessionService(pgtest.OpenStore(t, databaseURL, agentstore.Options{}))
	for range 5 {
		deleted := deleteUnderWriters(t, service, func(err error) {
			if !errors.Is(err, repo.ErrNotFound) {
				t.Errorf("a writer got %v", err)
			}
		})
		if _, err := get(t.Context(), service, deleted); !errors.Is(err, repo.ErrNotFound) {
			t.Errorf("Get: %v", err)
		}
	}
	conn := pgtest.Connect(t, databaseURL)
	for _, table := range []string{"sessions", "session_counters", "messages", "session_turns", "state_scopes", "state_values"} {
		var left int
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&left); err != nil || left != 0 {
			t.Errorf("%s: %d rows are left, %v", table, left, err)
		}
	}

	naive := recreating{service}
	for range 100 {
		deleted := deleteUnderWriters(t, naive, func(error) {})
		if _, err := get(t.Context(), naive, deleted); err == nil {
			return
		}
	}
	t.Error("the harness does not see the ghosts of the naive way")
}

// recreating is the naive way: it creates the session that an append does not find.
type recreating struct{ session.Service }

func (s recreating) AppendEvent(ctx context.Context, current session.Session, event *session.Event) error {
	err := s.Service.AppendEvent(ctx, current, event)
	if errors.Is(err, repo.ErrNotFound) {
		_, _ = s.Create(ctx, &session.CreateRequest{AppName: current.AppName(), UserID: current.UserID(), SessionID: current.ID()})
		err = s.Service.AppendEvent(ctx, current, event)
	}
	return err
}

// deleteUnderWriters deletes a session that writers append to, until they are refused, or
// have appended some more events. It returns the session.
func deleteUnderWriters(t *testing.T, service session.Service, ended func(error)) session.Session {
	t.Helper()
	current := create(t, service)
	var stored atomic.Int64
	var deleted atomic.Bool
	var all sync.WaitGroup
	for writer := range 4 {
		all.Go(func() {
			var err error
			for i, more := 0, 5; more > 0 && err == nil; i++ {
				if deleted.Load() {
					more--
				}
				id := fmt.Sprintf("%d/%d", writer, i)
				err = service.AppendEvent(t.Context(), current, &session.Event{
					ID: id, Author: "user", Actions: session.EventActions{StateDelta: map[string]any{id: i}},
				})
				stored.Add(1)
			}
			ended(err)
		})
	}
	await.For(t, "appends", func() bool { return stored.Load() >= 8 })
	err := service.Delete(t.Context(), &session.DeleteRequest{AppName: "shop", UserID: "ada", SessionID: current.ID()})
	deleted.Store(true)
	all.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return current
}

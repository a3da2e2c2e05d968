package adk

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"google.golang.org/adk/v2/session"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/adapters/adk"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Creations at once do not fill what all sessions of an application share beyond its bound, and all can be read. The naive way,
// which looks first and then writes, does.
func TestStateBoundBesideOthers(t *testing.T) {
	t.Parallel()
	store := pgtest.OpenStore(t, pgtest.NewDatabase(t), agentstore.Options{})
	service := adk.NewSessionService(store)
	const creations, keys, bound = 6, 1000, 2500
	stored := func(app string) int {
		t.Helper()
		read, err := store.State().Read(t.Context(), adk.AppScope(app))
		if err != nil {
			t.Fatal(err)
		}
		return len(read[0].Values)
	}
	var all, looked sync.WaitGroup
	looked.Add(creations)
	for i := range creations {
		all.Go(func() {
			state := map[string]any{}
			var changes []repo.StateChange
			for k := range keys {
				key := fmt.Sprintf("app:%d-%d", i, k)
				state[key] = k
				changes = append(changes, repo.StateChange{Scope: adk.AppScope("naive"), Key: key, Value: []byte("1")})
			}
			_, err := service.Create(t.Context(), &session.CreateRequest{AppName: "shop", UserID: fmt.Sprint(i), State: state})
			if err != nil && !errors.Is(err, repo.ErrLimit) {
				t.Error(err)
			}
			there := stored("naive")
			looked.Done()
			looked.Wait()
			if there+keys <= bound {
				if _, err := store.State().Change(t.Context(), changes); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got, naive := stored("shop"), stored("naive"); got != 2*keys || naive <= bound {
		t.Errorf("%d keys, and %d by writers that look first", got, naive)
	}
	listed, err := service.List(t.Context(), &session.ListRequest{AppName: "shop"})
	if err != nil || len(listed.Sessions) != 2 {
		t.Errorf("%d sessions, %v", len(listed.Sessions), err)
	}
}

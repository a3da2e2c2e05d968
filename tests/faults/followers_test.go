package faults

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

const followersPerSession = 8

// followers follow the sessions of a round as another process would, on a pool of their
// own, which meets the same fault.
type followers struct {
	store   *agentstore.Store
	ids     []repo.ID
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu  sync.Mutex
	got map[repo.ID][][]repo.ID // of each session, by follower
	bad []error                 // not explained by a fault
}

func startFollowers(ctx context.Context, t *testing.T, databaseURL string, ids []repo.ID) *followers {
	t.Helper()
	pool := pgtest.NewPool(t, databaseURL, func(c *pgxpool.Config) {
		c.MaxConns = 4
		c.ConnConfig.ConnectTimeout = 10 * time.Second
	})
	f := &followers{store: pgtest.OpenPool(t, pool, agentstore.Options{}), ids: ids, got: map[repo.ID][][]repo.ID{}}
	ctx, f.cancel = context.WithCancel(ctx)
	for _, id := range ids {
		f.got[id] = make([][]repo.ID, followersPerSession)
		for i := range followersPerSession {
			f.running.Go(func() { f.follow(ctx, id, i) })
		}
	}
	return f
}

func (f *followers) follow(ctx context.Context, id repo.ID, follower int) {
	for next := int64(0); ctx.Err() == nil; time.Sleep(clientPause) { // pace: until it goes on
		for message, err := range f.store.Sessions().Follow(ctx, id, next) {
			f.mu.Lock()
			switch {
			case err == nil && message.Sequence == next:
				f.got[id][follower] = append(f.got[id][follower], message.ID)
				next++
			case err == nil:
				f.bad = append(f.bad, errors.New("a message out of order"))
			case !errors.Is(err, repo.ErrUnavailable) && ctx.Err() == nil:
				f.bad = append(f.bad, err)
			}
			f.mu.Unlock()
		}
	}
}

// check waits until the followers have everything that is stored, and compares.
func (f *followers) check(t *testing.T, databaseURL string) {
	t.Helper()
	conn := connect(t, databaseURL)
	defer disconnect(conn)
	for _, id := range f.ids {
		rows, err := conn.Query(t.Context(), "SELECT id FROM messages WHERE session_id = $1 ORDER BY sequence", [16]byte(id))
		if err != nil {
			t.Fatal(err)
		}
		var stored []repo.ID
		for rows.Next() {
			var message [16]byte
			if err := rows.Scan(&message); err != nil {
				t.Fatal(err)
			}
			stored = append(stored, message)
		}
		for i := range followersPerSession {
			seen := func() []repo.ID {
				f.mu.Lock()
				defer f.mu.Unlock()
				return f.got[id][i]
			}
			await.For(t, "the follower has as many messages as are stored", func() bool { return len(seen()) >= len(stored) })
			if missed, twice, moved := followed(seen(), stored); missed+twice+moved > 0 {
				t.Errorf("a follower of %d messages: missed %d, twice %d, out of order %d", len(stored), missed, twice, moved)
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, err := range f.bad {
		t.Errorf("no fault explains what a follower got: %v", err)
	}
}

// followed compares what a follower got with what is stored.
func followed[Item comparable](got, stored []Item) (missed, twice, moved int) {
	count := map[Item]int{}
	for i, id := range got {
		if count[id]++; count[id] > 1 {
			twice++
		} else if i >= len(stored) || stored[i] != id {
			moved++
		}
	}
	for _, id := range stored {
		if count[id] == 0 {
			missed++
		}
	}
	return missed, twice, moved
}

func (f *followers) stop(t *testing.T) {
	t.Helper()
	f.cancel()
	f.running.Wait()
	if err := f.store.Close(); err != nil {
		t.Error(err)
	}
	f.store.Pool().Close()
}

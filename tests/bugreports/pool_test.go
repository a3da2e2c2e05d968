package bugreports

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Reports #3950 and #7566: code looked for an engine in a cache and then added one,
// without making the two steps atomic, so that two callers that opened one URL got
// two engines.

const openers = 200

// spellings are several ways to write the same URL.
func spellings(t *testing.T, databaseURL string) []string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	other := *u
	other.Scheme = "postgresql"
	escaped := *u
	escaped.RawPath = "/" + strings.ReplaceAll(url.PathEscape(u.Path[1:]), "_", "%5F")
	pairs := []string{"host=" + u.Hostname(), "port=" + u.Port(), "dbname=" + u.Path[1:], "user=" + u.User.Username()}
	if password, set := u.User.Password(); set {
		pairs = append(pairs, "password="+password)
	}
	for name := range u.Query() {
		pairs = append(pairs, name+"="+u.Query().Get(name))
	}
	sized := *u
	query := u.Query()
	query.Set("pool_max_conns", "4")
	sized.RawQuery = query.Encode()
	return []string{u.String(), other.String(), escaped.String(), strings.Join(pairs, " "), sized.String()}
}

// Guarantee: Servers and roles: A process has one pool for a database, however its URL is spelled.
func TestOnePoolForAllSpellings(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	written := spellings(t, databaseURL)
	var mu sync.Mutex
	pools := map[*pgxpool.Pool]int{}
	stores := make([]*agentstore.Store, 0, openers)
	var wg sync.WaitGroup
	for i := range openers {
		wg.Go(func() {
			store, err := agentstore.Open(t.Context(), written[i%len(written)], agentstore.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			stores = append(stores, store)
			pools[store.Pool()]++
		})
	}
	wg.Wait()
	if len(pools) != 1 {
		t.Fatalf("%d pools for one database", len(pools))
	}
	// Closing one store, even twice, does not affect the others.
	last := stores[0]
	for _, store := range stores[1:] {
		for range 2 {
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := store.Sessions().Create(t.Context(), repo.NewSession{}); err == nil {
			t.Fatal("a closed store still works")
		}
	}
	if _, err := last.Sessions().Create(t.Context(), repo.NewSession{}); err != nil {
		t.Fatal(err)
	}
	shared := last.Pool()
	if err := last.Close(); err != nil {
		t.Fatal(err)
	}
	if shared.Stat().TotalConns() != 0 {
		t.Fatalf("%d connections after the last close", shared.Stat().TotalConns())
	}
	awaitConnections(t, databaseURL, 0)

	// The next Open makes a new pool.
	again := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	if again.Pool() == shared {
		t.Fatal("a closed pool was handed out")
	}
}

// awaitConnections waits until the server counts want connections of the library to
// the database: it notices the end of one a moment later.
func awaitConnections(t *testing.T, databaseURL string, want int) {
	t.Helper()
	pool := pgtest.NewPool(t, databaseURL)
	await.For(t, fmt.Sprintf("the server has %d connections of ours", want), func() bool {
		return want == pgtest.Value[int](t, pool, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'agentstore'`)
	})
}

func TestNaiveCacheMakesSeveralPools(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	// The report's cache, with a map that is safe for concurrent use. Only the two
	// steps are not atomic.
	var cache sync.Map
	open := func(ctx context.Context, databaseURL string) (*pgxpool.Pool, error) {
		if found, ok := cache.Load(databaseURL); ok {
			return found.(*pgxpool.Pool), nil
		}
		pool, err := pgxpool.New(ctx, databaseURL)
		if err != nil {
			return nil, err
		}
		if err := pool.Ping(ctx); err != nil {
			pool.Close()
			return nil, err
		}
		cache.Store(databaseURL, pool)
		return pool, nil
	}
	var mu sync.Mutex
	pools := map[*pgxpool.Pool]struct{}{}
	var wg sync.WaitGroup
	for range openers / 4 {
		wg.Go(func() {
			pool, err := open(t.Context(), databaseURL)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			pools[pool] = struct{}{}
		})
	}
	wg.Wait()
	for pool := range pools {
		pool.Close()
	}
	t.Logf("naive: %d pools for one URL", len(pools))
	if len(pools) < 2 {
		t.Fatal("one pool: the harness does not catch the naive implementation")
	}
}

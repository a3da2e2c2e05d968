package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/erase"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/repotest"
	"github.com/seed-df90f812/agentstore/retention"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

const shards = 4

// openShards opens a store of four shards on a database that has none yet, or has them.
func openShards(t *testing.T, databaseURL string, options agentstore.Options) *agentstore.Store {
	t.Helper()
	options.Shards, options.Migrate = shards, true
	store, err := agentstore.Open(t.Context(), databaseURL, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// sharded has the audit log of one of its shards: the suite's views share it.
type sharded struct{ *agentstore.Store }

func (s sharded) AuditLog() auditlog.Store { return s.Shards()[0].AuditLog() }

func TestConformanceOfShards(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	openShards(t, databaseURL, agentstore.Options{MaxConns: 16})
	repotest.RunViews(t, func(t *testing.T) sharded {
		store, err := agentstore.Open(t.Context(), databaseURL, agentstore.Options{Shards: shards})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		return sharded{store}
	}, func(store sharded, namespace string) repo.Store { return store.In(namespace) },
		append(pgtest.Parts("Append", "Transactions", "Claims", "StreamsFollow", "Closing"), pgtest.Elapse(databaseURL))...)
}

// Views of all shards write at once, on fewer connections than there are shards: each row is in its own shard.
// Guarantee: Views: What a view writes is in its shard alone, however few connections shards share.
func TestShardsShareConnections(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	databaseURL := pgtest.NewEmptyDatabase(t)
	store := openShards(t, databaseURL, agentstore.Options{MaxConns: 2})
	other := openShards(t, databaseURL, agentstore.Options{})
	const namespaces, appends = 16, 20
	ids := make([]repo.ID, namespaces)
	var all sync.WaitGroup
	for i := range namespaces {
		all.Go(func() {
			view := store.In(fmt.Sprint("tenant ", i))
			session, err := view.Sessions().Create(ctx, repo.NewSession{})
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = session.ID
			var followed sync.WaitGroup
			defer followed.Wait()
			followed.Go(func() {
				next := int64(0)
				for message, err := range other.In(fmt.Sprint("tenant ", i)).Sessions().Follow(ctx, session.ID, 0) {
					if err != nil || message.Sequence != next {
						t.Errorf("the follower got %d, want %d: %v", message.Sequence, next, err)
						return
					}
					if next++; next == appends {
						return
					}
				}
			})
			for j := range appends {
				if j%5 == 0 {
					err = view.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
						_, err := tx.Sessions().Append(ctx, session.ID, repo.NewMessage{Role: repo.RoleUser, Content: "in a transaction"})
						return err
					})
				} else {
					_, err = view.Sessions().Append(ctx, session.ID, repo.NewMessage{Role: repo.RoleUser, Content: "alone"})
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	in := map[int]bool{}
	for i := range namespaces {
		found := 0
		for shard, whole := range store.Shards() {
			messages, err := whole.Sessions().MessagesFrom(ctx, ids[i], 0, 2*appends)
			if err == nil {
				found++
				in[shard] = true
			}
			if err == nil && len(messages) != appends {
				t.Errorf("%d messages", len(messages))
			}
		}
		if found != 1 {
			t.Errorf("the session is in %d shards", found)
		}
	}
	if len(in) != shards {
		t.Errorf("only the shards %v are used", in)
	}
}

// Guarantee: Views: A transaction of one view refuses another view's operations, also of another shard.
func TestShardsInOneTransaction(t *testing.T) {
	t.Parallel()
	store := openShards(t, pgtest.NewEmptyDatabase(t), agentstore.Options{})
	err := store.In("one").InTx(t.Context(), func(ctx context.Context, _ repo.Repositories) error {
		for i := range 8 {
			if _, err := store.In(fmt.Sprint("other ", i)).Sessions().Create(ctx, repo.NewSession{}); !errors.Is(err, repo.ErrInvalid) {
				t.Errorf("another view: %v", err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Guarantee: Views: A shard whose schema is behind is refused alone.
func TestShardBehind(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	databaseURL := pgtest.NewEmptyDatabase(t)
	openShards(t, databaseURL, agentstore.Options{})
	names := schema.Shards("", shards)
	migrator, err := schema.Open(ctx, databaseURL, schema.Options{Schema: names[2]})
	if err == nil {
		_, err = migrator.Run(ctx, schema.TargetDownSteps(1))
	}
	if err != nil {
		t.Fatal(err)
	}
	store, err := agentstore.Open(ctx, databaseURL, agentstore.Options{Shards: shards})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	refused := 0
	for i := range 64 {
		_, err := store.In(fmt.Sprint("tenant ", i)).Sessions().Create(ctx, repo.NewSession{})
		if errors.Is(err, repo.ErrSchema) && errors.Is(err, schema.ErrBehind) {
			refused++
		} else if err != nil {
			t.Error(err)
		}
	}
	if refused == 0 || refused > 40 {
		t.Errorf("%d of 64 tenants were refused", refused)
	}
	for i, shard := range store.Shards() {
		_, run := retention.Run(ctx, shard, retention.Policy{})
		_, subject := erase.Subject(ctx, shard, erase.Request{Owner: "x", Key: []byte("sixteen bytes or")})
		if behind := i == 2; errors.Is(run, schema.ErrBehind) != behind || errors.Is(subject, schema.ErrBehind) != behind || !behind && (run != nil || subject != nil) {
			t.Errorf("shard %d: retention: %v, erasure: %v", i, run, subject)
		}
	}
	if _, err := agentstore.Open(ctx, databaseURL, agentstore.Options{Shards: 2}); !errors.Is(err, repo.ErrInvalid) {
		t.Errorf("another number of shards: %v", err)
	}
}

// A caller that gets a connection, by Pool or WithTx, may leave another search_path on it, and is in no shard by itself.
func TestShardsAfterACaller(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store := openShards(t, pgtest.NewEmptyDatabase(t), agentstore.Options{MaxConns: 1})
	view := store.In("tenant")
	session := pgtest.NewSession(t, view)
	wantAppend := func(after string) {
		t.Helper()
		if _, err := view.Sessions().Append(ctx, session, repo.NewMessage{Role: repo.RoleUser, Content: after}); err != nil {
			t.Errorf("after %s: %v", after, err)
		}
	}
	others := []string{"SET search_path = public", "RESET ALL", "DISCARD ALL"}
	for _, name := range schema.Shards("", shards) {
		others = append(others, "SET search_path = "+name)
	}
	for _, sql := range others {
		err := view.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
			return agentstore.WithTx(tx, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, strings.Replace(sql, "DISCARD", "RESET", 1)) // which no transaction may have
				return err
			}, nil)
		})
		if err != nil {
			t.Error(err)
		}
		wantAppend(sql + " in a transaction")
		pgtest.Exec(t, store.Pool(), sql)
		wantAppend(sql)
	}
	if path := pgtest.Value[string](t, store.Pool(), "SELECT current_setting('search_path')"); strings.Contains(path, "agentstore") {
		t.Errorf("a caller is in %s", path)
	}
	if messages, err := view.Sessions().MessagesFrom(ctx, session, 0, 100); err != nil || len(messages) != 2*len(others) {
		t.Errorf("%d messages: %v", len(messages), err)
	}
}

// Neither another number of shards, nor one that nobody has migrated, changes anything.
func TestShardsOfAnotherNumber(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	databaseURL := pgtest.NewEmptyDatabase(t)
	for _, name := range schema.Shards("", shards) {
		migrator, err := schema.Open(ctx, databaseURL, schema.Options{Schema: name})
		if err == nil {
			_, err = migrator.Run(ctx, schema.TargetLatest())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := agentstore.Open(ctx, databaseURL, agentstore.Options{Shards: shards + 1})
	if !errors.Is(err, schema.ErrBehind) && !errors.Is(err, schema.ErrSetting) {
		t.Errorf("a shard that was never migrated: %v", err)
	}
	store, err := agentstore.Open(ctx, databaseURL, agentstore.Options{Shards: shards})
	if err != nil {
		t.Fatalf("the number of before: %v", err)
	}
	defer func() { _ = store.Close() }()
	if _, err := agentstore.Open(ctx, databaseURL, agentstore.Options{Shards: shards + 1, Migrate: true}); !errors.Is(err, repo.ErrInvalid) {
		t.Errorf("another number, with Migrate: %v", err)
	}
	count := "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'agentstore%'"
	if got := pgtest.Value[int64](t, store.Pool(), count); got != shards {
		t.Errorf("there are %d schemas", got)
	}
}

// What a process does in all shards is in the statistics of the store.
func TestStatsOfShards(t *testing.T) {
	t.Parallel()
	store := openShards(t, pgtest.NewEmptyDatabase(t), agentstore.Options{})
	for i := range 8 {
		view := store.In(fmt.Sprint("tenant ", i))
		if _, err := view.Sessions().Append(t.Context(), pgtest.NewSession(t, view), repo.NewMessage{Role: repo.RoleUser, Content: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	stats := store.Stats()
	if len(stats.Committers) != 1 || stats.Committers[0].Begun != 8 || stats.Pool.Max != int(store.Pool().Config().MaxConns) {
		t.Errorf("they are %+v", stats)
	}
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

// lab is where workloads run: a schema of its own in the user's database, a store
// with a pool of the size that the URL gives, and a larger pool for the baselines,
// which perform best with a connection per writer.
type lab struct {
	store     *agentstore.Store
	pool      *pgxpool.Pool // the store's
	baselines *pgxpool.Pool
	options   Options
	schema    string
	server    Server
	lengths   map[int]repo.ID // sessions of these lengths
	// connections bounds the baselines' pool. Zero: maxBaselineConns.
	connections int32
}

// maxBaselineConns bounds the baselines' connections. With more, requests would
// only queue in the server instead of here.
const maxBaselineConns = 64

// reservedConns are left to other clients and to the superuser.
const reservedConns = 10

// Server describes the server of a run.
type Server struct {
	Version           string `json:"version"`
	Fsync             string `json:"fsync"`
	SynchronousCommit string `json:"synchronous_commit"`
	SharedBuffers     string `json:"shared_buffers"`
	// MaxConnections is the server's max_connections.
	MaxConnections int `json:"max_connections"`
	// StoreConnections and BaselineConnections are the sizes of the pools.
	StoreConnections    int32 `json:"store_connections"`
	BaselineConnections int32 `json:"baseline_connections"`
}

// newLab creates the schema. The function that it returns drops it, even if ctx has
// ended.
func newLab(ctx context.Context, options Options) (l *lab, leave func() error, err error) {
	l = &lab{options: options, schema: "agentstore_bench_" + strings.ReplaceAll(repo.NewID().String(), "-", ""), lengths: map[int]repo.ID{}}
	// Statements on the scratch schema itself are not the library's.
	name := pgx.Identifier{l.schema}.Sanitize()
	if err = l.connect(ctx); err == nil {
		if _, err = l.pool.Exec(ctx, "CREATE SCHEMA "+name); err != nil {
			err = fmt.Errorf("make a scratch schema: %w", err)
		}
	}
	if err != nil {
		l.close()
		return nil, nil, err
	}
	leave = func() error {
		defer l.close()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if _, err := l.pool.Exec(ctx, "DROP SCHEMA "+name+" CASCADE"); err != nil {
			return fmt.Errorf("drop the scratch schema %s: %w", l.schema, err)
		}
		return nil
	}
	if err = l.open(ctx, true); err == nil {
		if _, err = l.pool.Exec(ctx, baselineTables); err != nil {
			err = fmt.Errorf("make the baselines' tables: %w", err)
		}
	}
	if err != nil {
		_ = leave()
		return nil, nil, err
	}
	return l, leave, nil
}

// connect opens the pools.
func (l *lab) connect(ctx context.Context) error {
	config := l.options.Config.Copy()
	config.ConnConfig.RuntimeParams["search_path"] = pgx.Identifier{l.schema}.Sanitize()
	var err error
	if l.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	const show = `SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit'),
		current_setting('shared_buffers'), current_setting('max_connections')::int,
		(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')`
	var inUse int
	s := &l.server
	if err := l.pool.QueryRow(ctx, show).Scan(&s.Version, &s.Fsync, &s.SynchronousCommit, &s.SharedBuffers,
		&s.MaxConnections, &inUse); err != nil {
		return err
	}
	s.StoreConnections = config.MaxConns
	s.BaselineConnections = l.connections
	if l.connections == 0 {
		free := int32(s.MaxConnections-inUse) - config.MaxConns - reservedConns
		s.BaselineConnections = min(max(free, config.MaxConns), maxBaselineConns)
	}
	wide := config.Copy()
	wide.MaxConns, wide.MinConns = s.BaselineConnections, 0
	l.baselines, err = pgxpool.NewWithConfig(ctx, wide)
	return err
}

func (l *lab) open(ctx context.Context, migrate bool) (err error) {
	l.store, err = agentstore.OpenPool(ctx, l.pool, agentstore.Options{Migrate: migrate})
	return err
}

func (l *lab) close() {
	if l.store != nil {
		_ = l.store.Close()
	}
	for _, pool := range []*pgxpool.Pool{l.pool, l.baselines} {
		if pool != nil {
			pool.Close()
		}
	}
}

// The ways of appending.
const (
	wayOurs    = "agentstore"
	wayNaive   = "naive transaction"
	wayRetry   = "max + 1, retried"
	wayBare    = "bare INSERT"
	wayCounted = "counted INSERT"
	wayCopy    = "COPY"
)

// wayCreate is no way of appending.
const wayCreate = "create"

// waySelect is a way of reading messages.
const waySelect = "bare SELECT"

// appender returns the appender of a way.
func (l *lab) appender(way string) appender {
	byHand := map[string]func(*pgxpool.Pool) appender{wayNaive: naive, wayRetry: retry, wayBare: bare, wayCounted: counted, wayCopy: copying}
	if build, ok := byHand[way]; ok {
		return build(l.baselines)
	}
	return appendTo(l.store)
}

func appendTo(store repo.Repositories) appender {
	return func(ctx context.Context, sessionID repo.ID, messages []repo.NewMessage) error {
		_, err := store.Sessions().Append(ctx, sessionID, messages...)
		return err
	}
}

// empty removes all data.
func (l *lab) empty(ctx context.Context) error {
	clear(l.lengths)
	_, err := l.pool.Exec(ctx, emptyTables)
	return err
}

// sessions creates sessions; only a few in a quick run.
func (l *lab) sessions(ctx context.Context, count int) ([]repo.ID, error) {
	if l.options.Quick {
		count = min(count, 20)
	}
	return createSessions(ctx, l.store, count)
}

func createSessions(ctx context.Context, store repo.Repositories, count int) ([]repo.ID, error) {
	ids := make([]repo.ID, count)
	creators := min(count, 16)
	return ids, each(creators, func(c int) (err error) {
		for i := c; i < count && err == nil; i += creators {
			var session repo.Session
			session, err = store.Sessions().Create(ctx, repo.NewSession{Actor: "bench"})
			ids[i] = session.ID
		}
		return err
	})
}

// each calls fn concurrently for 0 to count-1.
func each(count int, fn func(i int) error) error {
	errs := make([]error, count)
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() { errs[i] = fn(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// ofLength returns a session with this many messages, which it creates once.
func (l *lab) ofLength(ctx context.Context, length int) (repo.ID, error) {
	if id, ok := l.lengths[length]; ok {
		return id, nil
	}
	ids, err := l.sessions(ctx, 1)
	if err != nil {
		return repo.ID{}, err
	}
	_, err = l.pool.Exec(ctx, fillSession, uuid(ids[0]), length, content(messageSize))
	if err == nil {
		_, err = l.pool.Exec(ctx, fillCounter, uuid(ids[0]), length)
	}
	if err != nil {
		return repo.ID{}, fmt.Errorf("fill a session: %w", err)
	}
	// Otherwise autovacuum would do so during the measurements.
	if _, err := l.pool.Exec(ctx, "VACUUM (ANALYZE) messages"); err != nil {
		return repo.ID{}, err
	}
	l.lengths[length] = ids[0]
	return ids[0], nil
}

// messageSize is the usual size of a content in bytes.
const messageSize = 300

// content is text that does not compress well.
func content(size int) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ,"
	random := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, size)
	for i := range text {
		text[i] = letters[random.IntN(len(letters))]
	}
	return string(text)
}

// batch returns messages of a size.
func batch(count, size int) []repo.NewMessage {
	messages := make([]repo.NewMessage, count)
	for i := range messages {
		messages[i] = repo.NewMessage{Role: repo.RoleUser, Content: content(size)}
	}
	return messages
}

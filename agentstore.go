package agentstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/internal/pgurl"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/schema"
)

// Store is a store that Open or OpenPool returned. It is safe for concurrent
// use; what it does stands at repo.Store.
type Store struct {
	repo.Store
	pool    *pgxpool.Pool
	release func()
}

// Pool is the connection pool, for statements of the caller's own. It is nil for
// a store in memory.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// Close waits for this store's operations and gives up its share of the pool;
// the last one to do so closes the pool, which waits for its connections to
// come back. Closing twice is no error. Afterwards operations give
// repo.ErrClosed.
func (s *Store) Close() error {
	err := s.Store.Close()
	s.release()
	return err
}

// Open opens the store that databaseURL names: postgres://… (also written
// postgresql://… or as key=value pairs, as libpq does), or memory://name for one
// in this process.
//
// All who open one database in one process, in whatever spelling of its URL,
// share one pool, and only one is ever made, however many open it at once. Each
// closes its own store; with the last one the pool is closed, and who opens
// after that gets a new one. A failure is not remembered. So it is with a store
// in memory and its data (package repo/memory); of the options, only Logger may
// be set for it.
//
// Open connects, and compares the schema. Errors: repo.ErrInvalid for a URL or
// options that cannot be used, or (with schema.ServerVersionError) for a server
// that is older than PostgreSQL 13, repo.ErrUnavailable for a server that cannot be
// reached or refuses the login, repo.ErrSchema (with schema.BehindError or
// schema.AheadError) for a database at another version, repo.ErrConflict for
// pool options other than those the database was opened with. None holds the
// password. At most one Options may be given.
func Open(ctx context.Context, databaseURL string, options ...Options) (*Store, error) {
	o, err := one(options)
	if err != nil {
		return nil, err
	}
	if name, found := strings.CutPrefix(databaseURL, memoryScheme); found {
		return openMemory(ctx, name, o)
	}
	config, err := parse(databaseURL)
	if err != nil {
		return nil, err
	}
	shared, release, err := pools.open(ctx, databaseKey(config.ConnConfig),
		func(ctx context.Context) (*sharedPool, error) { return newSharedPool(ctx, config, o) },
		func(p *sharedPool) {
			_ = p.store.Close()
			p.pool.Close()
		},
	)
	if err != nil {
		return nil, fmt.Errorf("agentstore: open: %w", err)
	}
	store, err := open(ctx, shared, o)
	if err != nil {
		release()
		return nil, fmt.Errorf("agentstore: open: %w", err)
	}
	store.release = release
	return store, nil
}

// OpenPool opens a store on the caller's own pool, which stays open when the
// store is closed. The options that concern the pool must be zero. Errors: as
// Open's.
func OpenPool(ctx context.Context, pool *pgxpool.Pool, options ...Options) (*Store, error) {
	o, err := one(options)
	if err != nil {
		return nil, err
	}
	if field := o.differs(Options{}); field != "" {
		return nil, &repo.InvalidError{Field: "options." + field, Reason: "is set, but the pool is the caller's own"}
	}
	shared := &sharedPool{pool: pool, store: postgres.New(pool, postgres.Options{})}
	release := func() { _ = shared.store.Close() }
	store, err := open(ctx, shared, o)
	if err != nil {
		release()
		return nil, fmt.Errorf("agentstore: open: %w", err)
	}
	store.release = release
	return store, nil
}

// parse reads a database URL without quoting it in an error.
func parse(databaseURL string) (*pgxpool.Config, error) {
	if err := pgurl.Check(databaseURL); err != nil {
		return nil, &repo.InvalidError{Field: "database URL", Reason: err.Error()}
	}
	config, err := pgxpool.ParseConfig(databaseURL)
	if err != nil { // what is left is the pool's own parameters
		return nil, &repo.InvalidError{Field: "database URL", Reason: "has a malformed pool parameter"}
	}
	return config, nil
}

func one(options []Options) (Options, error) {
	switch len(options) {
	case 0:
		return Options{}, nil
	case 1:
		return options[0], options[0].validate()
	default:
		return Options{}, &repo.InvalidError{Field: "options", Reason: "are given more than once"}
	}
}

// pools are this process's, by database.
var pools registry[*sharedPool]

// sharedPool is a pool with what its first opener asked for.
type sharedPool struct {
	pool    *pgxpool.Pool
	store   *postgres.Store
	options Options
}

func newSharedPool(ctx context.Context, config *pgxpool.Config, o Options) (*sharedPool, error) {
	o.apply(config)
	// The pool makes its first connections in the background: they must not end
	// with this call.
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), config)
	if err != nil {
		return nil, &repo.InvalidError{Field: "database URL", Reason: "cannot be used for a pool"}
	}
	shared := &sharedPool{pool: pool, store: postgres.New(pool, postgres.Options{}), options: o}
	if err := shared.store.Ping(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return shared, nil
}

// open makes one opener's store on a pool.
func open(ctx context.Context, shared *sharedPool, o Options) (*Store, error) {
	if field := o.differs(shared.options); field != "" {
		return nil, fmt.Errorf("%w: the database is open with another value of options.%s", repo.ErrConflict, field)
	}
	if err := checkServer(ctx, shared.pool); err != nil {
		return nil, err
	}
	if o.Migrate {
		if err := migrate(ctx, shared.pool); err != nil {
			return nil, err
		}
	}
	store := &Store{Store: shared.store.Share(postgres.Options{Logger: o.Logger}), pool: shared.pool}
	return store, checkSchema(ctx, shared.pool)
}

// checkServer refuses a server that is too old.
func checkServer(ctx context.Context, pool *pgxpool.Pool) error {
	err := schema.CheckServer(ctx, pool)
	switch {
	case errors.Is(err, schema.ErrServerVersion):
		return fmt.Errorf("%w: %w", repo.ErrInvalid, err)
	case err != nil && ctx.Err() == nil:
		return fmt.Errorf("%w: %w", repo.ErrUnavailable, err)
	}
	return err
}

func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	migrator, err := schema.New(pool, schema.Options{})
	if err != nil {
		return err
	}
	_, err = migrator.Up(ctx)
	return err
}

// checkSchema compares the database's version with the library's.
func checkSchema(ctx context.Context, pool *pgxpool.Pool) error {
	have, err := schema.CurrentVersion(ctx, pool)
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", repo.ErrUnavailable, err)
	}
	switch want := schema.Latest(); {
	case have < want:
		return fmt.Errorf("%w: %w", repo.ErrSchema, schema.BehindError{Have: have, Want: want})
	case have > want:
		return fmt.Errorf("%w: %w", repo.ErrSchema, schema.AheadError{Have: have, Want: want})
	}
	return nil
}

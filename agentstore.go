package agentstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/internal/inside"
	"github.com/seed-df90f812/agentstore/internal/pgsettings"
	"github.com/seed-df90f812/agentstore/internal/pgurl"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/schema"
)

// Store is a store that Open or OpenPool returned. It is safe for concurrent
// use. See repo.Store for its operations.
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
// come back. Closing it again has no effect. Afterwards operations return
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
// All stores that are open on one database in one process share one pool, however
// its URL is spelled, and however many callers open it at once. Each caller closes
// its own store. Closing the last one closes the pool; opening the database again
// makes a new one. A failure is not remembered. The same holds for a store in
// memory and its data (package repo/memory); of the options, only Logger may be
// set for it, and Migrate has no effect.
//
// Open connects, and compares the schema: the database has this library's version,
// or a newer one that allows this library (see package schema, Upgrades). Errors:
// repo.ErrInvalid for a URL or options that cannot be used, repo.ErrUnavailable for
// a server that cannot be reached, or migrations that failed, repo.ErrPermission for
// a server that refuses the login or a right that opening needs, repo.ErrSchema for
// a database that is not there, a schema that this library does not work on (schema.BehindError,
// schema.AheadError, schema.GapError, schema.UnknownVersionError) or a setting that it
// does not work under (schema.SettingError), repo.ErrConflict for pool options other
// than those the database was opened with, repo.InsideTxError within a unit of work
// of a store on the same pool (repo.Store, InTx). None holds the password. At most one
// Options may be given.
//
// The connections have client_encoding UTF8, DateStyle ISO, TimeZone UTC and
// standard_conforming_strings on, whatever the server, the database, the role and
// the URL say. Refused are databases of another encoding than UTF8, servers older
// than PostgreSQL 13, session_replication_role = replica, and
// default_transaction_read_only = on for a role that may write, unless the URL asks
// for it. Where the URL asks for the mode exec or simple_protocol, in which values
// travel as text, bytea_output must be hex and array_nulls on, and in
// simple_protocol transform_null_equals off.
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
//
// Nothing is pinned on the caller's pool. What Open pins is looked at in each
// connection that an operation gets, without a round trip: server_encoding and
// client_encoding must be UTF8 and standard_conforming_strings on, and in the modes
// exec and simple_protocol DateStyle ISO; TimeZone may be any. An operation that
// gets another connection fails with repo.ErrSchema and a schema.SettingError, and
// sends nothing. What else Open refuses OpenPool looks at once, in one connection.
func OpenPool(ctx context.Context, pool *pgxpool.Pool, options ...Options) (*Store, error) {
	o, err := one(options)
	if err != nil {
		return nil, err
	}
	if field := o.differs(Options{}); field != "" {
		return nil, &repo.InvalidError{Field: "options." + field, Reason: "is set, but the pool is the caller's own"}
	}
	shared := &sharedPool{pool: pool, store: postgres.New(pool, postgres.Options{})} //nolint:contextcheck // its groups are no caller's
	release := func() { _ = shared.store.Close() }
	store, err := open(ctx, shared, o)
	if err != nil {
		release()
		return nil, fmt.Errorf("agentstore: open: %w", err)
	}
	store.release = release
	return store, nil
}

// parse reads a database URL without quoting it in an error. The settings that are
// pinned are so before anybody compares URLs.
func parse(databaseURL string) (*pgxpool.Config, error) {
	if err := pgurl.Check(databaseURL); err != nil {
		return nil, &repo.InvalidError{Field: "database URL", Reason: err.Error()}
	}
	config, err := pgxpool.ParseConfig(databaseURL)
	if err != nil { // what is left is the pool's own parameters
		return nil, &repo.InvalidError{Field: "database URL", Reason: "has a malformed pool parameter"}
	}
	pgsettings.Pin(config.ConnConfig.RuntimeParams)
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
	shared := &sharedPool{pool: pool, store: postgres.New(pool, postgres.Options{}), options: o} //nolint:contextcheck // its groups are no caller's
	if err := shared.store.Ping(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return shared, nil
}

// open makes one opener's store on a pool.
func open(ctx context.Context, shared *sharedPool, o Options) (*Store, error) {
	if inside.Is(ctx, shared.pool) {
		return nil, &repo.InsideTxError{}
	}
	if field := o.differs(shared.options); field != "" {
		return nil, fmt.Errorf("%w: the database is open with another value of options.%s", repo.ErrConflict, field)
	}
	if err := checkSettings(ctx, shared.pool); err != nil {
		return nil, err
	}
	if o.Migrate {
		if err := migrate(ctx, shared.pool); err != nil {
			return nil, err
		}
	}
	if err := schema.Check(ctx, shared.pool); err != nil {
		return nil, schemaError(ctx, err)
	}
	if err := checkWritable(ctx, shared.pool); err != nil {
		return nil, err
	}
	return &Store{Store: shared.store.Share(postgres.Options{Logger: o.Logger}), pool: shared.pool}, nil
}

func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	migrator, err := schema.New(pool, schema.Options{})
	if err != nil {
		return err
	}
	_, err = migrator.Up(ctx)
	return schemaError(ctx, err)
}

package agentstore

import (
	"context"
	"errors"
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
//
// To write rows of your own together with sessions, use postgres.Tx (package
// repo/postgres) in InTx: it gives the transaction as a pgx.Tx. In a transaction that
// you begin yourself use postgres.Bind.
type Store struct {
	repo.Store
	pool    *pgxpool.Pool
	ping    func(context.Context) error
	health  func(context.Context) (postgres.Health, error)
	release func()
}

// Pool returns the connection pool, for the caller's own statements. It is nil for
// a store in memory.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// Ping reports whether the database answers, for a health check. For a store in memory it
// reports whether that is open. Errors: repo.ErrClosed, repo.ErrUnavailable,
// repo.ErrPermission; repo.ErrSchema if the database no longer exists; the context's.
func (s *Store) Ping(ctx context.Context) error { return s.ping(ctx) }

// Health says who keeps dead row versions in the database, which makes writes slower, and how many
// there are: see postgres.Health. A store in memory has none. Errors: those of Ping.
func (s *Store) Health(ctx context.Context) (postgres.Health, error) {
	if s.health == nil {
		return postgres.Health{}, s.ping(ctx)
	}
	return s.health(ctx)
}

// Close waits for this store's operations and releases the pool. Closing the last
// store of a pool closes the pool, which waits until all connections are returned
// to it. Closing a store again has no effect. Afterwards its operations return
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
// All stores on one database in one process share one pool, however the URL is
// spelled, and however many callers open it at once. Each caller closes its own
// store. Closing the last one closes the pool; opening the database again makes a
// new one. A failure is not cached. Stores in memory with the same name share their
// data likewise (package repo/memory); Options says which options apply to them.
//
// Open connects, and checks the schema: the database must have this library's
// version, or a newer one that allows this library (see package schema, Upgrades).
// Errors:
//
//   - repo.ErrInvalid for an invalid URL or invalid options;
//   - repo.ErrUnavailable if the server cannot be reached, or migrations failed;
//   - repo.ErrPermission if the server refuses the login, or the role lacks a
//     privilege that Open needs;
//   - repo.ErrSchema for a database that does not exist, for a schema that this
//     library does not work with (*schema.BehindError, *schema.AheadError,
//     *schema.GapError, *schema.UnknownVersionError), for a table, type or
//     function that has the name of one of its own (*schema.ExistsError), or for a
//     setting that it does not work with (*schema.SettingError);
//   - repo.ErrConflict for pool options other than those with which the database is
//     open;
//   - repo.InsideTxError in a transaction of a store on the same pool (InTx of
//     repo.Store).
//
// No error contains the password.
//
// The connections have client_encoding UTF8, DateStyle ISO, TimeZone UTC and
// standard_conforming_strings on, whatever the settings of the server, the database,
// the role and the URL. Open refuses databases with an encoding other than UTF8,
// servers older than PostgreSQL 13, session_replication_role = replica, and, for a
// role that may write, default_transaction_read_only = on unless the URL sets it. If
// the URL selects the mode exec or simple_protocol, in which values are sent as
// text, bytea_output must be hex, array_nulls on and extra_float_digits 1 or more; in
// simple_protocol, transform_null_equals must be off.
func Open(ctx context.Context, databaseURL string, options Options) (*Store, error) {
	if err := options.validate(); err != nil {
		return nil, err
	}
	if name, found := strings.CutPrefix(databaseURL, memoryScheme); found {
		return openMemory(ctx, name, options)
	}
	config, err := parse(databaseURL)
	if err != nil {
		return nil, err
	}
	if !pgsettings.PinSchema(config.ConnConfig.RuntimeParams, options.Schema) {
		return nil, &repo.InvalidError{Field: "options.Schema", Reason: "is not the search_path of the database URL"}
	}
	shared, release, err := pools.open(ctx, databaseKey(config.ConnConfig),
		func(ctx context.Context) (*sharedPool, error) { return newSharedPool(ctx, config, options) },
		func(p *sharedPool) {
			_ = p.store.Close()
			p.pool.Close()
		},
	)
	if err != nil {
		return nil, fmt.Errorf("agentstore: open: %w", err)
	}
	store, err := open(ctx, shared, options)
	if err != nil {
		release()
		return nil, fmt.Errorf("agentstore: open: %w", err)
	}
	store.release = release
	return store, nil
}

// OpenPool opens a store on the caller's own pool, which stays open when the
// store is closed. The options that concern the pool must be zero. The errors are
// those of Open.
//
// OpenPool does not set the settings that Open sets. Instead they are checked on
// each connection that an operation gets, without a round trip: server_encoding and
// client_encoding must be UTF8, standard_conforming_strings must be on, and in the
// modes exec and simple_protocol DateStyle must be ISO; TimeZone may be any. An
// operation that gets another connection fails with repo.ErrSchema and a
// *schema.SettingError, and sends nothing. OpenPool checks the other settings that
// Open refuses once, on one connection.
func OpenPool(ctx context.Context, pool *pgxpool.Pool, options Options) (*Store, error) {
	if err := options.validate(); err != nil {
		return nil, err
	}
	if field := options.differs(Options{}); field != "" {
		return nil, &repo.InvalidError{Field: "options." + field, Reason: "is set, but the pool is the caller's own"}
	}
	shared := &sharedPool{pool: pool, store: postgres.New(pool, postgres.Options{})}
	release := func() { _ = shared.store.Close() }
	store, err := open(ctx, shared, options)
	if err != nil {
		release()
		return nil, fmt.Errorf("agentstore: open: %w", err)
	}
	store.release = release
	return store, nil
}

// parse parses a database URL without quoting it in an error. It also pins the
// settings, so that they are the same when URLs are compared.
func parse(databaseURL string) (*pgxpool.Config, error) {
	if err := pgurl.Check(databaseURL); err != nil {
		return nil, &repo.InvalidError{Field: "database URL", Reason: err.Error()}
	}
	config, err := pgxpool.ParseConfig(databaseURL)
	if err != nil { // in one of the pool's parameters: pgurl has checked the others
		return nil, &repo.InvalidError{Field: "database URL", Reason: "has a malformed pool parameter"}
	}
	pgsettings.Pin(config.ConnConfig.RuntimeParams)
	return config, nil
}

// pools are the shared pools of this process, by database.
var pools registry[*sharedPool]

// sharedPool is a pool with the options of its first opener.
type sharedPool struct {
	pool    *pgxpool.Pool
	store   *postgres.Store
	options Options
}

func newSharedPool(ctx context.Context, config *pgxpool.Config, o Options) (*sharedPool, error) {
	o.apply(config)
	// The pool makes its first connections in the background. They must outlive this
	// call's context.
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), config)
	if err != nil {
		return nil, &repo.InvalidError{Field: "database URL", Reason: "cannot be used for a pool"}
	}
	shared := &sharedPool{pool: pool, store: postgres.New(pool, postgres.Options{}), options: o}
	if err := shared.store.Ping(ctx); err != nil {
		pool.Close()
		if refused := pgsettings.RefusedSchema(err); errors.Is(refused, pgsettings.ErrSetting) {
			return nil, fmt.Errorf("%w: %w", repo.ErrSchema, refused)
		}
		return nil, err
	}
	return shared, nil
}

// open returns a store for one opener of a pool.
func open(ctx context.Context, shared *sharedPool, o Options) (*Store, error) {
	if inside.Is(ctx, shared.pool) {
		return nil, &repo.InsideTxError{}
	}
	if field := o.differs(shared.options); field != "" {
		return nil, fmt.Errorf("%w: the database is open with another value of options.%s", repo.ErrConflict, field)
	}
	if err := checkSettings(ctx, shared.pool, o.Schema); err != nil {
		return nil, err
	}
	if o.Migrate {
		if err := migrate(ctx, shared.pool, o.Schema); err != nil {
			return nil, err
		}
	}
	if err := schema.Check(ctx, shared.pool); err != nil {
		return nil, schemaError(ctx, err)
	}
	if err := ask(ctx, shared.pool, pgsettings.AskWritable); err != nil { // only if the schema exists
		return nil, err
	}
	store := shared.store.Share(postgres.Options{Logger: o.Logger, WithoutSessionAudit: o.WithoutSessionAudit})
	return &Store{Store: store, pool: shared.pool, ping: store.Ping, health: store.Health}, nil
}

func migrate(ctx context.Context, pool *pgxpool.Pool, in string) error {
	migrator, err := schema.New(pool, schema.Options{Schema: in})
	if err != nil {
		return &repo.InvalidError{Field: "options.Schema", Reason: "is not the search_path of the pool"}
	}
	_, err = migrator.Run(ctx, schema.TargetLatest())
	return schemaError(ctx, err)
}

package agentstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/inside"
	"github.com/seed-df90f812/agentstore/internal/observed"
	"github.com/seed-df90f812/agentstore/internal/pgsettings"
	"github.com/seed-df90f812/agentstore/internal/pgurl"
	"github.com/seed-df90f812/agentstore/observe"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/repo/removal"
	"github.com/seed-df90f812/agentstore/schema"
)

// Store is a store that Open or OpenPool returned. It is safe for concurrent
// use. See repo.Store for its operations.
//
// To write rows of your own together with sessions, use WithTx in InTx: it gives the
// transaction as a pgx.Tx. In a transaction that you begin yourself use postgres.Bind.
type Store struct {
	repo.Store
	kept    kept
	pool    *pgxpool.Pool
	release func()

	observer observe.Observer
}

// kept is what the stores of this module have beside the contract.
type kept interface {
	repo.Store
	auditlog.Keeper
	removal.Keeper
	Ping(ctx context.Context) error
	In(namespace string) repo.Store
}

// Pool returns the connection pool, for the caller's own statements. It is nil for
// a store in memory.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// Ping reports whether the database answers, for a health check. For a store in memory it
// reports whether that is open. Errors: repo.ErrClosed, repo.ErrUnavailable,
// repo.ErrPermission; repo.ErrSchema if the database no longer exists; the context's.
func (s *Store) Ping(ctx context.Context) error { return s.kept.Ping(ctx) }

// In returns a view of the store: a store of one namespace, such as a tenant's. What belongs to
// another namespace is not found in it, by whatever id, key, name or cursor it is asked for, and lists
// leave it out. Nothing is made outside: a namespace that is not given is the view's, also an action
// name's, and another one is an InvalidError, as is an import of its document. Shared scopes, streams
// and leases of a view have names of their own; a store that is no view has the names of
// repo.DefaultNamespace. The lease of a session or a plan is the same for all, and in a view the
// session or plan must exist. Streams.RemoveExpired removes streams of all namespaces.
//
// A view costs nothing to make, and need not be closed: it ends with the store, and its Close does
// nothing. The first use of a session or a plan in a process is one more round trip. A namespace that
// is empty or invalid is an InvalidError of each operation.
func (s *Store) In(namespace string) repo.Store {
	return observed.Store(s.kept.In(namespace), s.observer)
}

// AuditLog returns the audit trail's sealed log, for package audit.
func (s *Store) AuditLog() auditlog.Store { return s.kept.AuditLog() }

// Removal returns what packages retention and erase ask of a store.
func (s *Store) Removal() removal.Store { return s.kept.Removal() }

// Stats says what this process does on the pool: connections, groups, followers. It sends nothing to
// the database. A store in memory has none.
func (s *Store) Stats() postgres.Stats {
	if store, is := s.kept.(*postgres.Store); is {
		return store.Stats()
	}
	return postgres.Stats{}
}

// Health is Stats, with the server's view: what keeps dead row versions in the database, since when,
// and how many there are, which makes writes slower. A store in memory has none. Errors: Ping's.
func (s *Store) Health(ctx context.Context) (postgres.Health, error) {
	if store, is := s.kept.(*postgres.Store); is {
		return store.Health(ctx)
	}
	return postgres.Health{}, s.Ping(ctx)
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
// in this process, with a name that has no space and none of /?#@.
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
//   - repo.ErrConflict for pool options that differ from the open database's;
//   - repo.InvalidError in a transaction of a store on the same pool (InTx of
//     repo.Store).
//
// No error contains the password.
//
// The connections have client_encoding UTF8, DateStyle ISO, TimeZone UTC and standard_conforming_strings on, whatever
// the settings of the server, the database, the role and the URL. They have enable_seqscan and jit off, unless a pooler
// may hand them to others: the server keeps plans that it made for small tables. Open refuses databases with an
// encoding other than UTF8, servers older than PostgreSQL 13, session_replication_role = replica, and, for a role that
// may write, default_transaction_read_only = on unless the URL sets it. If the URL selects the mode exec or
// simple_protocol, in which values are sent as text, bytea_output must be hex, array_nulls on and extra_float_digits 1
// or more; in simple_protocol, transform_null_equals must be off.
func Open(ctx context.Context, databaseURL string, options Options) (*Store, error) {
	if name, found := strings.CutPrefix(databaseURL, memoryScheme); found {
		return openMemory(ctx, name, options)
	}
	if err := options.validateDatabase(); err != nil {
		return nil, err
	}
	config, err := parse(databaseURL)
	if err != nil {
		return nil, err
	}
	if !pgsettings.PinSchema(config.ConnConfig.RuntimeParams, options.Schema) {
		return nil, &repo.InvalidError{Field: "options.Schema", Reason: "is not the search_path of the database URL"}
	}
	shared, release, err := pools.open(ctx, databaseKey(config.ConnConfig),
		func(ctx context.Context) (*sharedPool, error) { return newSharedPool(ctx, config, options) }, (*sharedPool).close)
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
// Open's.
//
// OpenPool does not set the settings that Open sets. Set enable_seqscan and jit off
// yourself, if the pool is the store's alone. The others are checked on
// each connection that an operation gets, without a round trip: server_encoding and
// client_encoding must be UTF8, standard_conforming_strings must be on, and in the
// modes exec and simple_protocol DateStyle must be ISO; TimeZone may be any. An
// operation that gets another connection fails with repo.ErrSchema and a
// *schema.SettingError, and sends nothing. OpenPool checks the other settings that
// Open refuses once, on one connection.
func OpenPool(ctx context.Context, pool *pgxpool.Pool, options Options) (*Store, error) {
	if err := options.validateDatabase(); err != nil {
		return nil, err
	}
	own := Options{Observer: options.Observer}
	options.Observer = nil
	if field := options.differs(Options{}); field != "" {
		return nil, &repo.InvalidError{Field: "options." + field, Reason: "is set, but the pool is the caller's own"}
	}
	shared := &sharedPool{pool: pool, store: postgres.New(pgsettings.Checked{Pool: pool},
		postgres.Options{Observer: own.Observer}), options: own}
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

func (p *sharedPool) close() {
	_ = p.store.Close()
	p.pool.Close()
}

func newSharedPool(ctx context.Context, config *pgxpool.Config, o Options) (*sharedPool, error) {
	o.apply(config)
	pgsettings.ByIndex(config)
	// The pool makes its first connections in the background. They must outlive this
	// call's context.
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), config)
	if err != nil {
		return nil, &repo.InvalidError{Field: "database URL", Reason: "cannot be used for a pool"}
	}
	shared := &sharedPool{pool: pool, store: postgres.New(pgsettings.Checked{Pool: pool},
		postgres.Options{Observer: o.Observer}), options: o}
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
		return nil, inside.Error()
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
	if err := ask(ctx, shared.pool, func(ctx context.Context, conn *pgx.Conn) error {
		if err := pgsettings.AskWritable(ctx, conn); err != nil { // only if the schema exists
			return err
		}
		is, err := schema.IsDistributed(ctx, conn)
		if is {
			shared.store.Distribute()
		}
		return err
	}); err != nil {
		return nil, err
	}
	store := shared.store.Share(postgres.Options{
		Logger: o.Logger, WithoutSessionAudit: o.WithoutSessionAudit, CountTokens: o.CountTokens,
		TokenCounter: o.TokenCounter,
	})
	to := shared.options.Observer
	return &Store{Store: observed.Store(store, to), kept: store, pool: shared.pool, observer: to}, nil
}

func migrate(ctx context.Context, pool *pgxpool.Pool, in string) error {
	migrator, err := schema.New(pool, schema.Options{Schema: in})
	if err != nil {
		return &repo.InvalidError{Field: "options.Schema", Reason: "is not the search_path of the pool"}
	}
	_, err = migrator.Run(ctx, schema.TargetLatest())
	return schemaError(ctx, err)
}

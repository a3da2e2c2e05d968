package postgres

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/observed"
	"github.com/seed-df90f812/agentstore/internal/pgsettings"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/observe"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/cache"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/commit"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
)

// Options configure a store. The zero value is the default.
type Options struct {
	// Logger logs what the store does by itself, such as retries, and never a
	// message's content or a password. Nil: nothing is logged.
	Logger *slog.Logger
	// WithoutSessionAudit switches off the audit entries that the store records by
	// itself when a session is created, imported or deleted.
	WithoutSessionAudit bool
	// CountTokens counts the tokens of each message that is appended without NewMessage.Tokens, and TokenCounter names it.
	// It must not change the message. Nil: they are not counted.
	CountTokens  func(repo.NewMessage) int64
	TokenCounter string
	// Observer sees the operations of BindWith's repositories. Package agentstore has it see a store's operations.
	Observer observe.Observer

	// view is the namespace of a view, whose names of shared scopes, leases and streams are its own.
	view string
}

func (o Options) counter() rules.TokenCounter {
	return rules.TokenCounter{Name: o.TokenCounter, Count: o.CountTokens}
}

func (o Options) logger() *slog.Logger { return cmp.Or(o.Logger, slog.New(slog.DiscardHandler)) }

// Store implements repo.Store on a pool. It is safe for concurrent use.
type Store struct {
	repositories
	exec  *pooled
	log   *slog.Logger
	owner bool // of the committers and of live
}

var _ repo.Store = (*Store)(nil)

// New is for package agentstore, whose OpenPool puts a store on a pool. Closing the store
// leaves the pool open.
func New(pool pgsettings.Checked, options Options) *Store {
	way := conn.New(pool.Pool, options.Observer)
	store := storeOn(&pooled{
		conns: way, budget: commit.NewBudget(way), committers: &committers{}, live: newLive(way), keyCache: &keyCache{},
		actions: &cache.Cache[repo.ActionName, repo.Action]{}, viewed: &known{}, gate: newGate(),
	}, options)
	store.owner = true
	return store
}

func storeOn(exec *pooled, options Options) *Store {
	return &Store{
		repositories: repositories{base{exec, options.view, exec.viewed}, options}, exec: exec,
		log: options.logger(),
	}
}

// Distribute is for package agentstore: the tables of the store are on a node of a distributed engine.
func (s *Store) Distribute() { s.exec.conns.Distributed.Store(true) }

// Share is for package agentstore. It returns another store on the same pool, which is closed separately. Close the
// store that New returned last.
func (s *Store) Share(options Options) *Store {
	exec := *s.exec
	exec.gate = newGate()
	return storeOn(&exec, options)
}

// In returns a view of one namespace: see agentstore.Store.In.
func (s *Store) In(namespace string) repo.Store {
	exec, options := s.exec, s.options
	if err := rules.CheckNamespace(namespace); err != nil {
		refuses := *s.exec
		refuses.gate = &gate{closed: true, err: err, closing: s.exec.gate.closing}
		exec = &refuses
	}
	options.view = namespace
	return view{storeOn(exec, options)}
}

// view ends with its store.
type view struct{ repo.Store }

func (view) Close() error { return nil }

// AuditLog implements auditlog.Keeper.
func (s *Store) AuditLog() auditlog.Store { return &auditStore{s.exec} }

// Close waits for the operations under way and refuses later ones. It ends all
// follows of sessions.
func (s *Store) Close() error {
	s.exec.gate.close()
	if s.owner {
		s.exec.committers.close()
		s.exec.live.close()
	}
	return nil
}

// Bind returns repositories on the caller's transaction, which the caller commits or
// rolls back. Use them only in the goroutine that uses tx, and while tx is open.
//
// The transaction's isolation level should be read committed, PostgreSQL's
// default. At a higher level, reads and reported conflicts reflect the database as it
// was at the transaction's first statement. An operation whose write or success depends
// on something that others have changed since fails with repo.ErrContention, and the
// whole transaction must be run again.
//
// The session's settings matter, too. server_encoding and client_encoding must be
// UTF8 and standard_conforming_strings on; where results are sent as text
// (default_query_exec_mode exec or simple_protocol), DateStyle must be ISO. The
// driver knows these, and they are checked before each statement without a round
// trip: if one is wrong the operation fails with repo.ErrSchema and a *schema.SettingError, and
// nothing was sent. The caller is responsible for settings that the driver does not know and
// agentstore.OpenPool would check: in those two modes bytea_output must be hex, array_nulls on
// and extra_float_digits 1 or more, in simple_protocol transform_null_equals off, and
// session_replication_role may not be replica. The caller also checks the schema's version
// (schema.Check). Translate gives errors of the caller's own statements the sentinels of the
// store's.
func Bind(tx pgx.Tx) repo.Repositories { return BindWith(tx, Options{}) }

// BindWith is Bind with options. Logger has no effect, because nothing is retried.
func BindWith(tx pgx.Tx, options Options) repo.Repositories {
	return observed.Tx(inTx{repositories{base{exec: bound{tx: conn.CheckedTx{Tx: tx}}}, options}, tx}, options.Observer)
}

// Tx returns the transaction of repositories that InTx or Bind returned, for the
// caller's own statements in it: they are committed together with what the
// repositories do. It returns false for others: repositories of a store itself, which
// are in no transaction, and of a store in memory.
//
// The transaction that InTx passes is ended by InTx alone: its Commit and Rollback only
// return an error, which matches repo.ErrInvalid. Begin makes a savepoint as usual. Use
// the transaction like its repositories: only in the function that InTx calls, in the
// same goroutine, and not after an error of the database, which must be returned (see
// Translate). A statement of the caller's that ends the transaction, such as COMMIT, is
// noticed afterwards: the repositories then refuse to work (repo.ErrClosed), and InTx
// returns repo.ErrUnknownOutcome. It is not noticed if another transaction is begun in its
// place, by COMMIT AND CHAIN, ROLLBACK AND CHAIN or BEGIN: never use these.
func Tx(r repo.Repositories) (pgx.Tx, bool) {
	own, ok := observed.Below(r).(inTx)
	return own.tx, ok
}

// lentTx is the transaction of InTx, as its function gets it.
type lentTx struct{ pgx.Tx }

func (lentTx) Commit(context.Context) error   { return errLent() }
func (lentTx) Rollback(context.Context) error { return errLent() }

func errLent() error {
	return &repo.InvalidError{
		Field:  "transaction",
		Reason: "is committed or rolled back by InTx, when its function returns",
	}
}

// inTx are the repositories of a transaction.
type inTx struct {
	repositories
	tx pgx.Tx // as the caller gets it
}

// repositories are the repositories of a store or a transaction.
type repositories struct {
	base
	options Options
}

func (r repositories) Sessions() repo.Sessions {
	return &sessions{r.base, !r.options.WithoutSessionAudit, r.options.counter()}
}
func (r repositories) Actions() repo.Actions { return &actions{r.base} }
func (r repositories) Plans() repo.Plans     { return &plans{r.base} }
func (r repositories) State() repo.State     { return &state{r.base} }
func (r repositories) Leases() repo.Leases   { return &leases{r.base} }
func (r repositories) Streams() repo.Streams { return &streams{r.base} }
func (r repositories) Audit() repo.Audit     { return &audit{r.base} }

// Ping reports whether the database answers. Errors: repo.ErrUnavailable,
// repo.ErrPermission, repo.ErrSchema if the database does not exist.
func (s *Store) Ping(ctx context.Context) error {
	return s.exec.retried(ctx, func() error {
		return conn.Translate(ctx, s.exec.conns.Pool.Ping(ctx), conn.Reading)
	})
}

// Translate wraps an error of one of the caller's own statements, sent through
// Store.Pool or the transaction of Bind, with the sentinel that the store's errors
// have. It assumes that the statement only reads: a lost connection is
// repo.ErrUnavailable, although a statement that writes may have been executed. An
// error that has a sentinel is returned unchanged, and nil as nil.
func Translate(ctx context.Context, err error) error { return conn.Translate(ctx, err, conn.Reading) }

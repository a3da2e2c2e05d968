package postgres

import (
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/repo"
)

// Options configure a store. The zero value is the default.
type Options struct {
	// Logger logs what the store does by itself, such as retries, and never a
	// message's content or a password. Nil: nothing is logged.
	Logger *slog.Logger
}

func (o Options) logger() *slog.Logger {
	if o.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Logger
}

// Store implements repo.Store on a pool. It is safe for concurrent use.
type Store struct {
	exec  *pooled
	log   *slog.Logger
	owner bool // of the appender
}

var _ repo.Store = (*Store)(nil)

// New returns a store on a pool, whose database is migrated (package schema).
// The pool stays the caller's: closing the store leaves it open.
func New(pool *pgxpool.Pool, options Options) *Store {
	way := link{pool}
	return &Store{
		exec:  &pooled{link: way, appender: newAppender(way), gate: &gate{}},
		log:   options.logger(),
		owner: true,
	}
}

// Share returns another store on the same pool, which is closed by itself. Close
// the one that New returned last.
func (s *Store) Share(options Options) *Store {
	return &Store{
		exec: &pooled{link: s.exec.link, appender: s.exec.appender, gate: &gate{}},
		log:  options.logger(),
	}
}

// Sessions implements repo.Repositories.
func (s *Store) Sessions() repo.Sessions { return &sessions{s.exec} }

// Actions implements repo.Repositories.
func (s *Store) Actions() repo.Actions { return &actions{s.exec} }

// Plans implements repo.Repositories.
func (s *Store) Plans() repo.Plans { return &plans{s.exec} }

// Audit implements repo.Repositories.
func (s *Store) Audit() repo.Audit { return &audit{s.exec} }

// Trail implements repo.Store.
func (s *Store) Trail() repo.AuditStore { return &trail{s.exec} }

// Close waits for the operations under way and refuses later ones.
func (s *Store) Close() error {
	s.exec.gate.close()
	if s.owner {
		s.exec.appender.close()
	}
	return nil
}

// Bind returns the repositories of the caller's transaction: what is done
// through them is committed or rolled back with it, by the caller. They are for
// the goroutine that uses tx, and for as long as tx is open.
//
// The transaction's isolation level should be read committed, PostgreSQL's
// default. Under a higher one the transaction sees the database as it was at its
// first statement, and so do its reads and the conflicts that it reports. An operation
// whose write or success would depend on something that others have changed since
// fails with repo.ErrContention, and the whole transaction must be run again.
//
// The session's settings matter, too. server_encoding and client_encoding must be
// UTF8 and standard_conforming_strings on; where results travel as text
// (default_query_exec_mode exec or simple_protocol), DateStyle must be ISO. The
// driver knows these, and they are checked before each statement without a round
// trip: if one is wrong the operation fails with repo.ErrSchema and a
// schema.SettingError, and nothing was sent. The caller is responsible for those
// that the driver does not know and agentstore.OpenPool would check: in those
// two modes bytea_output must be hex and array_nulls on, in simple_protocol
// transform_null_equals off, and session_replication_role may not be replica. The
// caller also checks the schema's version (schema.Check).
func Bind(tx pgx.Tx) repo.Repositories { return repositories{bound{checkedTx{tx}}} }

type repositories struct{ exec bound }

func (r repositories) Sessions() repo.Sessions { return &sessions{r.exec} }
func (r repositories) Actions() repo.Actions   { return &actions{r.exec} }
func (r repositories) Plans() repo.Plans       { return &plans{r.exec} }
func (r repositories) Audit() repo.Audit       { return &audit{r.exec} }

// Ping reports whether the database answers. Errors: repo.ErrUnavailable,
// repo.ErrPermission, repo.ErrSchema where there is no such database.
func (s *Store) Ping(ctx context.Context) error {
	return s.exec.retried(ctx, func() error { return translate(ctx, s.exec.link.pool.Ping(ctx), reading) })
}

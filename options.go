package agentstore

import (
	"cmp"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/internal/pgsettings"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/observe"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

// Options configure a store. The zero value is the default.
//
// All stores on one database share its pool, so the first opener's options apply.
// Opening the database again with other pool options is an error. Logger, Migrate,
// WithoutSessionAudit and CountTokens are each store's own.
//
// For a store in memory the same options are valid, so that a program can change only the URL; Clock is for a store in
// memory only. Schema and WithoutSessionAudit have the same effect there; the others, which concern connections,
// statements and tables, have none.
type Options struct {
	// MaxConns is the size of the pool, 1 to 10,000. Zero: the URL's
	// pool_max_conns, or by default the larger of 4 and the number of CPUs.
	MaxConns int
	// ConnectTimeout bounds the time to establish a connection. Zero: the URL's
	// connect_timeout, or by default 10 s.
	ConnectTimeout time.Duration
	// StatementTimeout and LockTimeout are the server's limits of each statement
	// and of each wait for a lock, in whole milliseconds. Zero: the URL's, or by
	// default the server's settings.
	StatementTimeout, LockTimeout time.Duration
	// Schema is the schema of the store's tables. It becomes the whole search_path
	// of the pool's connections, which overrides the role's and the database's. The
	// name is 1 to 63 bytes long, does not begin with pg_, and is used literally:
	// it is neither quoted nor lower-cased. Migrate creates the schema if it does
	// not exist. Empty: the search_path of the URL, the role or the database. If
	// the URL has a search_path, it must be the same schema.
	//
	// Stores in different schemas of one database have different pools and share no
	// data. A schema has one pool, whether this field or the URL's search_path
	// selects it. For OpenPool, Schema is what the pool's connections must already
	// have. Stores in memory with the same name and different schemas share no data
	// either.
	//
	// The schema is sent in the startup message, which PgBouncer refuses by
	// default. It then needs ignore_startup_parameters = search_path in its
	// configuration, and ALTER ROLE … SET search_path to the same schema, so that
	// each of its sessions has it (RECONNECT replaces sessions that began earlier).
	// Open checks the session that it gets, and returns *schema.SettingError if the
	// schema is another one.
	Schema string
	// Tracer sees every statement with its arguments, which include the contents
	// of messages.
	Tracer pgx.QueryTracer
	// Observer sees each operation, with its caller's context, and the groups in which writes are committed: see package
	// observe. It is an option of the pool, and each store's own in memory. OpenPool allows it, too. For transactions of
	// the caller's own there is postgres.BindWith.
	Observer observe.Observer

	// Logger logs what the store does on its own, such as retries, but never the
	// content of a message or a password. It applies only to the store that this
	// call opens. Nil: nothing is logged.
	Logger *slog.Logger
	// Migrate first migrates the database to this library's schema, under the
	// migrations' lock. The role must be allowed to create and change tables. A
	// newer database is not changed.
	Migrate bool
	// WithoutSessionAudit switches off the audit entries that the store records by
	// itself when a session is created, imported or deleted, which are recorded by
	// default. It applies only to the store that this call opens, including its InTx;
	// for transactions of the caller's own there is postgres.BindWith. Entries of
	// plans and actions are recorded in any case.
	WithoutSessionAudit bool
	// CountTokens counts the tokens of each message that is appended without NewMessage.Tokens, once, and TokenCounter
	// names it (Message.Counter), such as "o200k". It must not change the message. They apply only to the store that this
	// call opens. Nil: tokens are not counted.
	CountTokens  func(repo.NewMessage) int64
	TokenCounter string
	// Clock is the clock of a store in memory, for unit tests: see memory.Clock. All stores
	// of one name have the first opener's. With a database it is an error, since its server
	// tells the time.
	Clock *memory.Clock
}

const (
	defaultConnectTimeout = 10 * time.Second
	// defaultPingTimeout bounds the pool's check of an idle connection. A group of
	// appends has no deadline of its own: without this bound, a connection that the
	// network has dropped silently would keep its place in the pool, and delay
	// closing the pool, for another minute.
	defaultPingTimeout = 5 * time.Second
	maxPoolSize        = 10_000
)

// validateDatabase checks the options for a store on a database.
func (o Options) validateDatabase() error {
	if o.Clock != nil {
		return &repo.InvalidError{Field: "options.Clock", Reason: "is only for a store in memory"}
	}
	return o.validate()
}

func (o Options) validate() error {
	if o.MaxConns < 0 || o.MaxConns > maxPoolSize {
		return &repo.InvalidError{Field: "options.MaxConns", Reason: fmt.Sprintf("is not between 0 and %d", maxPoolSize)}
	}
	if reason := pgsettings.CheckSchemaName(o.Schema); o.Schema != "" && reason != "" {
		return &repo.InvalidError{Field: "options.Schema", Reason: reason}
	}
	if err := (rules.TokenCounter{Name: o.TokenCounter, Count: o.CountTokens}).Check(); err != nil {
		return err
	}
	for _, timeout := range []struct {
		field string
		value time.Duration
	}{
		{"ConnectTimeout", o.ConnectTimeout},
		{"StatementTimeout", o.StatementTimeout},
		{"LockTimeout", o.LockTimeout},
	} {
		if timeout.value < 0 || timeout.value > 0 && timeout.value < time.Millisecond {
			return &repo.InvalidError{Field: "options." + timeout.field, Reason: "is neither zero nor at least a millisecond"}
		}
	}
	return nil
}

// apply copies the options to a pool's configuration.
func (o Options) apply(config *pgxpool.Config) {
	if o.MaxConns > 0 {
		config.MaxConns = int32(o.MaxConns)
		config.MinConns = min(config.MinConns, config.MaxConns)
	}
	config.ConnConfig.ConnectTimeout = cmp.Or(o.ConnectTimeout, config.ConnConfig.ConnectTimeout, defaultConnectTimeout)
	config.PingTimeout = cmp.Or(config.PingTimeout, defaultPingTimeout)
	milliseconds := func(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }
	if o.StatementTimeout > 0 {
		config.ConnConfig.RuntimeParams["statement_timeout"] = milliseconds(o.StatementTimeout)
	}
	if o.LockTimeout > 0 {
		config.ConnConfig.RuntimeParams["lock_timeout"] = milliseconds(o.LockTimeout)
	}
	if o.Tracer != nil {
		config.ConnConfig.Tracer = seesBatches(o.Tracer)
	}
	if _, named := config.ConnConfig.RuntimeParams["application_name"]; !named {
		config.ConnConfig.RuntimeParams["application_name"] = "agentstore"
	}
}

// differs returns the name of a pool option that is set in o and differs from that
// in first, the options of the pool, or "". Tracers and observers that are not comparable differ.
func (o Options) differs(first Options) string {
	for _, name := range []string{"MaxConns", "ConnectTimeout", "StatementTimeout", "LockTimeout", "Tracer", "Observer"} {
		is, was := reflect.ValueOf(o).FieldByName(name), reflect.ValueOf(first).FieldByName(name)
		if !is.IsZero() && (!is.Comparable() || !was.Comparable() || !is.Equal(was)) {
			return name
		}
	}
	return ""
}

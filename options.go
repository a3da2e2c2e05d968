package agentstore

import (
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/repo"
)

// Options configure a store. The zero value is the default.
//
// The pool is shared by all who open the same database, so its options are the
// first opener's. A later one that asks for other values gets an error and not,
// silently, a pool that is not what it asked for.
type Options struct {
	// MaxConns is the size of the pool, 1 to 10,000. Zero: the URL's
	// pool_max_conns, else the larger of 4 and the number of CPUs.
	MaxConns int
	// ConnectTimeout bounds the making of one connection. Zero: the URL's
	// connect_timeout, else 10 s.
	ConnectTimeout time.Duration
	// StatementTimeout and LockTimeout bound, in the server, each statement and
	// each wait for a lock, to the millisecond. Zero: the URL's, else the
	// server's settings.
	StatementTimeout, LockTimeout time.Duration
	// Tracer sees every statement with its arguments, which include the contents
	// of messages.
	Tracer pgx.QueryTracer

	// Logger logs what the store does by itself, such as retries, and never
	// a message's content or a password. It is used for this opener's store
	// alone. Nil: nothing is logged.
	Logger *slog.Logger
	// Migrate brings the database to this library's schema first, under the
	// migrations' lock. The role must be allowed to create and change tables. A
	// database that is newer is left as it is.
	Migrate bool
}

const (
	defaultConnectTimeout = 10 * time.Second
	// defaultPingTimeout bounds the pool's look at a connection that was idle. A
	// group of appends has no deadline that would: without a bound a connection
	// that the network has forgotten keeps its place in the pool, and the pool from
	// closing, for another minute.
	defaultPingTimeout = 5 * time.Second
	maxPoolSize        = 10_000
)

func (o Options) validate() error {
	if o.MaxConns < 0 || o.MaxConns > maxPoolSize {
		return &repo.InvalidError{Field: "options.MaxConns", Reason: fmt.Sprintf("is not between 0 and %d", maxPoolSize)}
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

// apply puts the options into a pool's configuration.
func (o Options) apply(config *pgxpool.Config) {
	if o.MaxConns > 0 {
		config.MaxConns = int32(o.MaxConns)
		config.MinConns = min(config.MinConns, config.MaxConns)
	}
	switch {
	case o.ConnectTimeout > 0:
		config.ConnConfig.ConnectTimeout = o.ConnectTimeout
	case config.ConnConfig.ConnectTimeout == 0:
		config.ConnConfig.ConnectTimeout = defaultConnectTimeout
	}
	if config.PingTimeout == 0 {
		config.PingTimeout = defaultPingTimeout
	}
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

// differs names the first pool option that o asks for and first, which made the
// pool, does not have.
func (o Options) differs(first Options) string {
	switch {
	case o.MaxConns != 0 && o.MaxConns != first.MaxConns:
		return "MaxConns"
	case o.ConnectTimeout != 0 && o.ConnectTimeout != first.ConnectTimeout:
		return "ConnectTimeout"
	case o.StatementTimeout != 0 && o.StatementTimeout != first.StatementTimeout:
		return "StatementTimeout"
	case o.LockTimeout != 0 && o.LockTimeout != first.LockTimeout:
		return "LockTimeout"
	case o.Tracer != nil && !same(o.Tracer, first.Tracer):
		return "Tracer"
	}
	return ""
}

// same compares tracers; those that cannot be compared are taken for different.
func same(a, b pgx.QueryTracer) bool {
	return b != nil && reflect.TypeOf(a).Comparable() && reflect.TypeOf(b).Comparable() && a == b
}

package schema

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/seed-df90f812/agentstore/internal/pgsettings"
)

const (
	applicationName = "agentstore migrate"

	// The Down sections of the migrations read allowDataLossSetting.
	allowDataLossSetting = "agentstore.allow_data_loss"

	// cancelGrace is how long a cancelled statement may take to end before its
	// connection is closed.
	cancelGrace = 5 * time.Second
)

// source says how to connect.
type source struct {
	config  *pgx.ConnConfig
	options []stdlib.OptionOpenDB
}

// prepare configures the connections of a migrator. The setting that allows data
// loss is in the startup message rather than in a SET, so that it cannot leak
// through a pooler into the sessions of other clients.
func (s source) prepare(options Options) error {
	if s.config.RuntimeParams == nil {
		s.config.RuntimeParams = map[string]string{}
	}
	s.config.RuntimeParams["application_name"] = cmp.Or(s.config.RuntimeParams["application_name"], applicationName)
	pgsettings.Pin(s.config.RuntimeParams)
	if options.Schema != "" {
		if reason := pgsettings.CheckSchemaName(options.Schema); reason != "" {
			return fmt.Errorf("%w: it %s", ErrSchemaName, reason)
		}
		if !pgsettings.PinSchema(s.config.RuntimeParams, options.Schema) {
			return fmt.Errorf("%w: the connection's search_path is another", ErrSchemaName)
		}
	}
	delete(s.config.RuntimeParams, allowDataLossSetting)
	if options.AllowDataLoss {
		s.config.RuntimeParams[allowDataLossSetting] = "on"
	}
	// Named prepared statements do not pay for statements that are run once, and some
	// poolers do not support them.
	if mode := s.config.DefaultQueryExecMode; mode == pgx.QueryExecModeCacheStatement ||
		mode == pgx.QueryExecModeDescribeExec {
		s.config.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	// When the context is cancelled, ask the server to end the statement and wait for
	// its answer. The driver by default asks in the background; if the process exits
	// before it has asked, the server goes on and holds the lock.
	s.config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: cancelGrace}
	}
	return nil
}

// open returns a pool of exactly one connection: goose takes a connection from a
// *sql.DB for each version, and must get the one that holds the lock.
func (s source) open() *sql.DB {
	db := stdlib.OpenDB(*s.config, s.options...)
	db.SetMaxOpenConns(1)
	db.SetMaxIdleConns(1)
	return db
}

// read runs f in a read-only transaction, in which the server refuses changes.
func (s source) read(ctx context.Context, f func(tx *sql.Tx) error) error {
	db := s.open()
	defer db.Close()
	return readOnly(ctx, db, f)
}

func readOnly(ctx context.Context, db *sql.DB, f func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead})
	if err != nil {
		return fmt.Errorf("schema: connect: %w", pgsettings.RefusedSchema(err))
	}
	defer tx.Rollback() //nolint:errcheck // a read has nothing to lose
	return f(tx)
}

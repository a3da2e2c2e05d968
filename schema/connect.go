package schema

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/stdlib"
)

const (
	applicationName = "agentstore migrate"

	// allowDataLossSetting is read by the Down sections of the migrations.
	allowDataLossSetting = "agentstore.allow_data_loss"

	// cancelGrace is how long a cancelled statement may take to end before the
	// connection is cut.
	cancelGrace = 5 * time.Second
)

// source is where connections come from.
type source struct {
	config  *pgx.ConnConfig
	options []stdlib.OptionOpenDB
}

// prepare sets what every connection of a migrator has. The setting that
// permits data loss travels in the startup message, not in a SET: through a
// pooler it cannot leak into other clients' sessions.
func (s source) prepare(allowDataLoss bool) {
	if s.config.RuntimeParams == nil {
		s.config.RuntimeParams = map[string]string{}
	}
	if s.config.RuntimeParams["application_name"] == "" {
		s.config.RuntimeParams["application_name"] = applicationName
	}
	delete(s.config.RuntimeParams, allowDataLossSetting)
	if allowDataLoss {
		s.config.RuntimeParams[allowDataLossSetting] = "on"
	}
	// Statements prepared by name pay off for none that is run once, and do not
	// get through every pooler: status and validate do without.
	if mode := s.config.DefaultQueryExecMode; mode == pgx.QueryExecModeCacheStatement || mode == pgx.QueryExecModeDescribeExec {
		s.config.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	// A cancelled context asks the server to end the statement and waits for
	// its answer. The driver's default asks in the background, which a process
	// that exits right after may cut short: the server would work on, with the
	// lock held.
	s.config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: cancelGrace}
	}
}

// open gives a pool of exactly one connection: goose asks a *sql.DB for a
// connection for each version, and must get the one that holds the lock.
func (s source) open() *sql.DB {
	db := stdlib.OpenDB(*s.config, s.options...)
	db.SetMaxOpenConns(1)
	db.SetMaxIdleConns(1)
	return db
}

// read runs f in a read-only transaction: the server itself refuses a change.
func (s source) read(ctx context.Context, f func(tx *sql.Tx) error) error {
	db := s.open()
	defer db.Close()
	return readOnly(ctx, db, f)
}

func readOnly(ctx context.Context, db *sql.DB, f func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead})
	if err != nil {
		return fmt.Errorf("schema: connect: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // a read has nothing to lose
	var version int
	if err := tx.QueryRowContext(ctx, serverVersionSQL).Scan(&version); err != nil {
		return fmt.Errorf("schema: read the server's version: %w", err)
	}
	if err := checkVersion(version); err != nil {
		return err
	}
	return f(tx)
}

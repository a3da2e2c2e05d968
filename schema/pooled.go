package schema

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// probeTimeout bounds the wait for the second connection of checkDirect: a
// pooler whose connections are all in use lets it wait for minutes.
const probeTimeout = 5 * time.Second

// probeRounds is how often it is looked: a pooler that hands its sessions out in
// turn may give the same one twice by chance.
const probeRounds = 8

// checkDirect gives ErrPooled when a transaction pooler stands between this
// process and the server. There a lock is of no use, and worse: it would be left
// behind in a session that the pooler keeps, and shut out every later migrator.
//
// A server tells its own process id to who connects; a pooler tells another.
// That alone may also be a pooler that gives each client a session to itself,
// where the lock holds. So a second connection then opens a transaction: a
// transaction pooler hands it the session that the first one used, or moves the
// first one elsewhere. What the look misses, in a busy pooler, checkLock finds
// before anything is committed.
func (m *Migrator) checkDirect(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("schema: connect: %w", err)
	}
	defer conn.Close()
	told, first, err := backend(ctx, conn)
	if err != nil || told == first {
		return err
	}
	probeCtx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	otherDB := m.source.open()
	defer otherDB.Close()
	for range probeRounds {
		moved, err := probe(probeCtx, conn, otherDB, first)
		if ctx.Err() != nil {
			return fmt.Errorf("schema: look for a pooler: %w", ended(ctx))
		}
		if err != nil { // it cannot be shown that the lock would hold
			return fmt.Errorf("schema: %w (%w)", ErrPooled, err)
		}
		if moved {
			return fmt.Errorf("schema: %w", ErrPooled)
		}
	}
	return nil
}

// probe reports whether conn has left the server's process first, or a
// transaction on other was given it. Before and after the transaction the
// pooler has another choice of sessions to hand out.
func probe(ctx context.Context, conn *sql.Conn, other *sql.DB, first uint32) (moved bool, err error) {
	tx, err := other.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback() //nolint:errcheck // it changes nothing
	var taken uint32
	if err := tx.QueryRowContext(ctx, backendSQL).Scan(&taken); err != nil || taken == first {
		return taken == first, err
	}
	if _, then, err := backend(ctx, conn); err != nil || then != first {
		return then != first, err
	}
	if err := tx.Rollback(); err != nil {
		return false, err
	}
	_, then, err := backend(ctx, conn)
	return then != first, err
}

const backendSQL = `SELECT pg_backend_pid()`

// backend returns the process id that the connection was told when it was made,
// and the one of the process that answers it now.
func backend(ctx context.Context, conn *sql.Conn) (told, answers uint32, err error) {
	err = conn.Raw(func(driverConn any) error {
		direct := driverConn.(*stdlib.Conn).Conn()
		told = direct.PgConn().PID()
		// The simple protocol prepares nothing, so that any pooler can carry it.
		return direct.QueryRow(ctx, backendSQL, pgx.QueryExecModeSimpleProtocol).Scan(&answers)
	})
	if err != nil {
		return 0, 0, fmt.Errorf("schema: look for a pooler: %w", err)
	}
	return told, answers, nil
}

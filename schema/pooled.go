package schema

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// probeTimeout bounds the wait for checkDirect's second connection: a pooler whose
// connections are all in use could make it wait for minutes.
const probeTimeout = 5 * time.Second

// probeRounds is the number of probes: a pooler that hands out its sessions in turn
// may give the same one twice by chance.
const probeRounds = 8

// checkDirect returns ErrPooled if there is a transaction pooler between this
// process and the server. A lock would not hold there. Worse, it would be left
// behind in one of the pooler's sessions, and lock out every later migrator.
//
// A server reports its own process id to a client; a pooler reports another. A
// different id may also mean a pooler that gives each client a session of its own,
// where the lock holds. So a second connection begins a transaction: a transaction
// pooler gives it the session that the first one used, or moves the first one to
// another. What this check misses, in a busy pooler, checkLock detects before
// anything is committed.
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
		if err != nil { // nothing shows that the lock would hold
			return fmt.Errorf("schema: %w (%w)", ErrPooled, err)
		}
		if moved {
			return fmt.Errorf("schema: %w", ErrPooled)
		}
	}
	return nil
}

// probe reports whether conn is no longer served by the server process first, or
// that process serves a transaction on other. While the transaction is open, and
// after it, the pooler chooses among different sessions.
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

// backend returns the process id that the connection was told when it was made, and
// the id of the process that answers it now.
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

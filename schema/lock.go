package schema

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3/lock"
)

// lockID is the key of the PostgreSQL session advisory lock that a run in the schema public holds
// (the bytes "agentsto"). The locks of other schemas have the same first half.
const lockID int64 = 0x6167656e_7473746f

// lockOf returns the key of a schema's lock.
func lockOf(schema string) int64 {
	if schema == "public" {
		return lockID
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(schema))
	return lockID>>32<<32 | int64(h.Sum32())
}

const (
	tryLockSQL = `SELECT pg_try_advisory_lock($1)`
	unlockSQL  = `SELECT pg_advisory_unlock($1)`

	// pg_locks shows a 64-bit advisory key as two halves with objsubid 1.
	lockHolderSQL = `
SELECT l.pid, coalesce(a.application_name, '')
FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (l.classid::bigint << 32 | l.objid::bigint) = $1`

	// The server then checks regularly whether its client is still there, even
	// during a statement, so that a killed process releases its lock. Servers
	// before version 14 do not have the setting.
	watchClientSQL = `
SELECT set_config(name, '2s', false) FROM pg_settings WHERE name = 'client_connection_check_interval'`

	// Limits that the role or the database sets for the short statements of services
	// do not apply to migrations, unless the URL sets them too. Each version
	// locks tables and then checks them, for which it needs a snapshot newer than the
	// locks: hence read committed. The wait for a table is bounded in any case.
	ownSettingsSQL = `
SELECT set_config(s.name, w.value, false)
FROM pg_settings s JOIN (VALUES ('statement_timeout', '0'), ('transaction_timeout', '0'),
    ('idle_in_transaction_session_timeout', '0'), ('default_transaction_isolation', 'read committed'),
    ('lock_timeout', $1)) AS w (name, value) ON w.name = s.name
WHERE s.source <> 'client' OR s.name = 'lock_timeout'`
)

// locker is a goose session locker. It polls instead of waiting in the server,
// because a waiting statement holds a snapshot, for which CREATE INDEX CONCURRENTLY
// would wait in turn. goose's own locker polls in whole seconds, has no jitter, and
// returns an untyped error.
//
// The lock is reentrant: the run takes it once, and goose again for each version. If
// the connection was lost in between, goose acquires the lock again, in a session that is
// prepared again.
type locker struct {
	id      int64
	timeout time.Duration
	// tables is the lock timeout of the session once it has this lock; 0 means
	// none.
	tables  time.Duration
	waiting func() // called once, when the first try fails

	prepared *pgx.Conn // the session that has the settings of a migration
}

var _ lock.SessionLocker = (*locker)(nil)

// SessionLock takes the lock on conn, or returns a *LockedError.
func (l *locker) SessionLock(ctx context.Context, conn *sql.Conn) error {
	started := time.Now()
	for {
		var locked bool
		if err := conn.QueryRowContext(ctx, tryLockSQL, l.id).Scan(&locked); err != nil {
			return fmt.Errorf("schema: acquire migration lock: %w", err)
		}
		if locked {
			return l.prepare(ctx, conn)
		}
		waited := time.Since(started)
		if waited >= l.timeout {
			return l.lockedError(ctx, conn, waited)
		}
		if l.waiting != nil {
			l.waiting()
			l.waiting = nil
		}
		pause := min(pollInterval(waited), l.timeout-waited)
		select {
		case <-ctx.Done():
			return fmt.Errorf("schema: wait for migration lock: %w", ended(ctx))
		case <-time.After(pause):
		}
	}
}

// SessionUnlock releases what SessionLock took. The server releases it by itself if
// the connection is gone, so that is not an error.
func (l *locker) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, cancelGrace)
	defer cancel()
	var unlocked bool
	err := conn.QueryRowContext(ctx, unlockSQL, l.id).Scan(&unlocked)
	if err != nil && !connectionGone(err) {
		return fmt.Errorf("schema: release migration lock: %w", err)
	}
	return nil
}

// lock takes the migration lock for the whole run, on the one connection of db.
func (l *locker) lock(ctx context.Context, db *sql.DB) (release func(), err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("schema: connect: %w", err)
	}
	defer conn.Close() // goose takes it again
	if err := l.SessionLock(ctx, conn); err != nil {
		return nil, err
	}
	return func() {
		// Closing db ends the session, which releases the lock in any case; this
		// releases it before Run returns.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelGrace)
		defer cancel()
		if conn, err := db.Conn(ctx); err == nil {
			_ = l.SessionUnlock(ctx, conn)
			_ = conn.Close()
		}
	}, nil
}

// prepare applies the settings that a session has while it migrates.
func (l *locker) prepare(ctx context.Context, conn *sql.Conn) error {
	var session *pgx.Conn
	err := conn.Raw(func(driverConn any) error {
		session = driverConn.(*stdlib.Conn).Conn()
		return nil
	})
	if err != nil || session == l.prepared {
		return err
	}
	if _, err := conn.ExecContext(ctx, ownSettingsSQL, fmt.Sprintf("%dms", l.tables.Milliseconds())); err != nil {
		return fmt.Errorf("schema: acquire migration lock: %w", err)
	}
	if _, err := conn.ExecContext(ctx, watchClientSQL); err != nil && ctx.Err() != nil {
		return fmt.Errorf("schema: acquire migration lock: %w", err)
	} // Some systems do not support it. The lock works without it.
	l.prepared = session
	return nil
}

// pollInterval is short at first, for the many processes of a deployment that start
// together, and grows to spare the server. Jitter keeps them apart.
func pollInterval(waited time.Duration) time.Duration {
	base := min(max(waited/4, 20*time.Millisecond), time.Second)
	return base/2 + rand.N(base)
}

func (l *locker) lockedError(ctx context.Context, conn *sql.Conn, waited time.Duration) error {
	failure := &LockedError{Waited: waited}
	_ = conn.QueryRowContext(ctx, lockHolderSQL, l.id).Scan(&failure.HolderPID, &failure.Holder) // if it is known
	return failure
}

func connectionGone(err error) bool {
	return errors.Is(err, sql.ErrConnDone) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, pgconn.ErrConnClosed)
}

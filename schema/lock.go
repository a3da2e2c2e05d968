package schema

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pressly/goose/v3/lock"
)

// LockID is the key of the PostgreSQL session advisory lock that a run holds
// (the bytes "agentsto"). In pg_locks it is split: classid 1634166126 and objid
// 1953723503, objsubid 1.
const LockID int64 = 0x6167656e_7473746f

const (
	tryLockSQL = `SELECT pg_try_advisory_lock($1)`
	unlockSQL  = `SELECT pg_advisory_unlock($1)`

	// A 64-bit advisory key stands in pg_locks as two halves with objsubid 1.
	lockHolderSQL = `
SELECT l.pid, coalesce(a.application_name, '')
FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (l.classid::bigint << 32 | l.objid::bigint) = $1`

	// The server then looks now and then whether its client is still there,
	// also in the middle of a statement: a killed process gives its lock back.
	// Servers before version 14 do not have the setting.
	watchClientSQL = `
SELECT set_config(name, '2s', false) FROM pg_settings WHERE name = 'client_connection_check_interval'`

	tableLockTimeoutSQL = `SELECT set_config('lock_timeout', $1, false)`

	// What a role or a database may have for short statements of services is not
	// for migrations, unless the URL says so too. Each version begins with a look
	// behind its locks, for which it needs a snapshot of its own.
	ownSettingsSQL = `
SELECT set_config(s.name, w.value, false)
FROM pg_settings s JOIN (VALUES ('statement_timeout', '0'), ('transaction_timeout', '0'), ('idle_in_transaction_session_timeout', '0'),
                         ('default_transaction_isolation', 'read committed')) AS w (name, value) ON w.name = s.name
WHERE s.source <> 'client'`
)

// locker is a goose session locker. It tries and tries again instead of waiting
// in the server, because a waiting statement holds a snapshot, for which CREATE
// INDEX CONCURRENTLY would wait in turn. goose's own has whole seconds between
// tries, no jitter and an untyped error.
//
// The lock counts: the run takes it once, and goose once more for each version.
// When the connection was lost in between, goose's turn takes it anew.
type locker struct {
	timeout time.Duration
	// tables bounds the session's waits for what it locks after this lock; 0
	// does not.
	tables  time.Duration
	waiting func() // called once, when the first try fails
}

var _ lock.SessionLocker = (*locker)(nil)

// SessionLock takes the lock on conn, or gives a LockedError.
func (l *locker) SessionLock(ctx context.Context, conn *sql.Conn) error {
	started := time.Now()
	for {
		var locked bool
		if err := conn.QueryRowContext(ctx, tryLockSQL, LockID).Scan(&locked); err != nil {
			return fmt.Errorf("schema: acquire migration lock: %w", err)
		}
		if locked {
			return l.prepare(ctx, conn)
		}
		waited := time.Since(started)
		if waited >= l.timeout {
			return lockedError(ctx, conn, waited)
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

// SessionUnlock gives back what SessionLock took. The server gives it back by
// itself when the connection is gone: that is no failure.
func (l *locker) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, cancelGrace)
	defer cancel()
	var unlocked bool
	err := conn.QueryRowContext(ctx, unlockSQL, LockID).Scan(&unlocked)
	if err != nil && !connectionGone(err) {
		return fmt.Errorf("schema: release migration lock: %w", err)
	}
	return nil
}

// prepare sets what the session has while it migrates.
func (l *locker) prepare(ctx context.Context, conn *sql.Conn) error {
	if _, err := conn.ExecContext(ctx, tableLockTimeoutSQL, fmt.Sprintf("%dms", l.tables.Milliseconds())); err != nil {
		return fmt.Errorf("schema: acquire migration lock: %w", err)
	}
	if _, err := conn.ExecContext(ctx, ownSettingsSQL); err != nil {
		return fmt.Errorf("schema: acquire migration lock: %w", err)
	}
	if _, err := conn.ExecContext(ctx, watchClientSQL); err != nil && ctx.Err() != nil {
		return fmt.Errorf("schema: acquire migration lock: %w", err)
	}
	return nil // Some systems cannot do it: the lock is right without it too.
}

// pollInterval is short at first, for the many processes of one deployment that
// start together, and then spares the server. The jitter keeps them apart.
func pollInterval(waited time.Duration) time.Duration {
	base := min(max(waited/4, 20*time.Millisecond), time.Second)
	return base/2 + rand.N(base)
}

func lockedError(ctx context.Context, conn *sql.Conn, waited time.Duration) error {
	failure := LockedError{Waited: waited}
	err := conn.QueryRowContext(ctx, lockHolderSQL, LockID).Scan(&failure.HolderPID, &failure.Holder)
	if err != nil {
		return LockedError{Waited: waited}
	}
	return failure
}

func connectionGone(err error) bool {
	return errors.Is(err, sql.ErrConnDone) || isBadConn(err)
}

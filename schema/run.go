package schema

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
)

// dataLossCode is the SQLSTATE with which a Down section refuses. The standard
// leaves classes from I to Z to implementations.
const dataLossCode = "ZAS01"

// Run goes to the target under the migration lock, each version in its own
// transaction, and returns the versions that it committed, also beside an error.
//
// Errors: [ErrLocked] when another process kept the lock, [ErrBusy] when others
// kept a table that a version needs, [ErrPooled] through a
// transaction pooler when there is something to do, [ErrSetting] in a session in
// which that cannot be done, [ErrAhead], [ErrGap]
// and [ErrUnknownVersion] for a database or target that this binary does not
// understand, and *[StepError] for the version that failed and was rolled back.
// After the context ends, the error wraps its Err and its cause, and the lock is
// free.
func (m *Migrator) Run(ctx context.Context, target Target) ([]Step, error) {
	db := m.source.open()
	defer db.Close()

	// A database that is there already needs no lock and no right to create.
	steps, err := m.read(ctx, db, target)
	if err != nil || len(steps) == 0 {
		return nil, err
	}
	if err := checkSettings(ctx, db); err != nil {
		return nil, err
	}
	if err := m.checkDirect(ctx, db); err != nil {
		return nil, err
	}
	release, err := m.lock(ctx, db)
	if err != nil {
		return nil, err
	}
	defer release()

	// Others may have run between the first look and the lock.
	steps, err = m.read(ctx, db, target)
	if err != nil || len(steps) == 0 {
		return nil, err
	}
	provider, err := goose.NewProvider(goose.DialectCustom, db, m.fsys,
		goose.WithStore(versionTable{m.migrations}),
		goose.WithSessionLocker(&locker{timeout: m.options.lockTimeout(), tables: m.options.tableLockTimeout()}),
		goose.WithDisableGlobalRegistry(true),
		goose.WithLogger(goose.NopLogger()),
	)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	var done []Step
	for _, step := range steps {
		step, err := m.runStep(ctx, db, provider, step)
		if err != nil {
			return done, err
		}
		done = append(done, step)
	}
	return done, nil
}

func (m *Migrator) read(ctx context.Context, db *sql.DB, target Target) (steps []Step, err error) {
	err = readOnly(ctx, db, func(tx *sql.Tx) error {
		applied, err := readVersions(ctx, tx)
		if err != nil {
			return err
		}
		steps, err = plan(m.migrations, applied, target)
		return err
	})
	return steps, err
}

// lock takes the migration lock for the whole run, on the one connection of db.
func (m *Migrator) lock(ctx context.Context, db *sql.DB) (release func(), err error) {
	session := &locker{
		timeout: m.options.lockTimeout(),
		tables:  m.options.tableLockTimeout(),
		waiting: func() { m.options.progress(Event{Kind: EventWaiting}) },
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("schema: connect: %w", err)
	}
	defer conn.Close() // goose asks for it again
	if err := session.SessionLock(ctx, conn); err != nil {
		return nil, err
	}
	return func() {
		// Closing db ends the session, and the lock with it, in any case; this
		// makes it free before Run returns.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelGrace)
		defer cancel()
		if conn, err := db.Conn(ctx); err == nil {
			_ = session.SessionUnlock(ctx, conn)
			_ = conn.Close()
		}
	}, nil
}

// runStep applies or reverts one version.
func (m *Migrator) runStep(ctx context.Context, db *sql.DB, provider *goose.Provider, step Step) (Step, error) {
	m.options.progress(Event{Kind: EventStarted, Step: step})
	started := time.Now()
	err := m.guard(ctx, db, step)
	if err == nil {
		err = m.applyOrYield(ctx, provider, step)
	}
	step.Duration = time.Since(started)
	if err != nil {
		err = &StepError{Step: step, Err: err}
		m.options.progress(Event{Kind: EventFailed, Step: step, Err: err})
		return step, err
	}
	m.options.progress(Event{Kind: EventFinished, Step: step})
	return step, nil
}

// applyOrYield runs a version until it gets the tables that it needs. Between
// tries those pass who had to wait behind it.
func (m *Migrator) applyOrYield(ctx context.Context, provider *goose.Provider, step Step) error {
	started := time.Now()
	for attempt := 1; ; attempt++ {
		_, err := provider.ApplyVersion(ctx, step.Version, step.Direction == DirectionUp)
		if err == nil {
			return nil
		}
		err = cause(ctx, err)
		if !isBusy(err) || ctx.Err() != nil {
			return err
		}
		if time.Since(started) >= m.options.lockTimeout() {
			return fmt.Errorf("%w: %w", ErrBusy, err)
		}
		m.options.progress(Event{Kind: EventYielded, Step: step, Err: err})
		select {
		case <-ctx.Done():
			return ended(ctx)
		case <-time.After(yieldPause(attempt, m.options.tableLockTimeout())):
		}
	}
}

// isBusy reports a lock that could not be had in time, or a deadlock.
func isBusy(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (refused.Code == lockNotAvailable || refused.Code == deadlockDetected)
}

// The SQLSTATEs after which a version is run again.
const (
	lockNotAvailable = "55P03"
	deadlockDetected = "40P01"
)

// yieldPause is no shorter than the wait was, and grows to eight times that, with
// jitter.
func yieldPause(attempt int, waited time.Duration) time.Duration {
	base := max(waited, 50*time.Millisecond) * time.Duration(min(attempt, 8))
	return base + rand.N(base/2)
}

// cause takes the reason out of what goose returns: its own text for a failed
// version names the file and says nothing of why.
func cause(ctx context.Context, err error) error {
	if partial, ok := errors.AsType[*goose.PartialError](err); ok {
		err = withoutRollback(partial.Err)
	}
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == dataLossCode {
		return fmt.Errorf("%w: %s", ErrDataLoss, refused.Message)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ended(ctx), err)
	}
	return err
}

// withoutRollback drops what goose adds when database/sql has rolled back by
// itself, as it does when the context ends.
func withoutRollback(err error) error {
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	kept := slices.DeleteFunc(slices.Clone(several.Unwrap()), func(err error) bool {
		return errors.Is(err, sql.ErrTxDone)
	})
	if len(kept) == 1 {
		return kept[0]
	}
	return err
}

// ended says why ctx ended, and is its Err too where its cause is another one.
func ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ctx.Err()) {
		return cause
	}
	return fmt.Errorf("%w: %w", ctx.Err(), cause)
}

func isBadConn(err error) bool {
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, pgconn.ErrConnClosed)
}

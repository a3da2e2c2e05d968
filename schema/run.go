package schema

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
)

// dataLossCode is the SQLSTATE with which a Down section refuses to destroy data.
// The SQL standard leaves classes that begin with I to Z to implementations.
const dataLossCode = "ZAS01"

// Run migrates to the target under the migration lock, each version in its own
// transaction, and returns the versions that it committed, also when it returns an
// error. If there is nothing to do, it does not take the lock.
//
// Errors: [ErrLocked] if another process kept the lock; [ErrBusy] if others kept a
// table that a version needs; [ErrPooled] through a transaction pooler if there is
// something to do; [ErrSetting] in a session in which versions cannot be run;
// [ErrAhead], [ErrGap] and [ErrUnknownVersion] for a database or target that this
// binary does not understand; [ErrPermission] if the role may not create the
// schema; and *[StepError] for the version that failed and was rolled back, for
// example with [ErrDataLoss], [ErrExists], [ErrPermission] or [ErrFailed];
// [ErrUnavailable] without a connection; [ErrFailed] and [ErrPermission] for a
// statement that the server refused; [ErrInvalid] for an empty target or a version's
// file that goose refuses. If the context ends, the error wraps its Err and its cause,
// and the lock is free.
func (m *Migrator) Run(ctx context.Context, target Target) (done []Step, err error) {
	defer func() { err = withSentinel(ctx, err) }()
	db := m.source.open()
	defer db.Close()

	// A database that is at the target needs neither the lock nor privileges.
	steps, err := m.read(ctx, db, target)
	if err != nil || len(steps) == 0 {
		return nil, err
	}
	schema, err := m.checkSettings(ctx, db)
	if err != nil {
		return nil, err
	}
	if err := m.checkDirect(ctx, db); err != nil {
		return nil, err
	}
	session := m.locker(schema)
	release, err := session.lock(ctx, db)
	if err != nil {
		return nil, err
	}
	defer release()

	// Another migrator may have run before this one got the lock.
	steps, err = m.read(ctx, db, target)
	if err != nil || len(steps) == 0 {
		return nil, err
	}
	if err := m.checkWhole(ctx); err != nil {
		return nil, err
	}
	if err := m.makeSchema(ctx, db); err != nil {
		return nil, err
	}
	provider, err := goose.NewProvider(goose.DialectCustom, db, m.options.Migrations,
		goose.WithStore(versionTable{m.migrations, session.id}),
		goose.WithSessionLocker(session),
		goose.WithDisableGlobalRegistry(true),
		goose.WithLogger(goose.NopLogger()),
	)
	if err != nil {
		return nil, invalid("%w", err)
	}
	for _, step := range steps {
		step, err := m.runStep(ctx, provider, step)
		if err != nil {
			return done, err
		}
		done = append(done, step)
	}
	return done, nil
}

// locker returns the lock of a schema.
func (m *Migrator) locker(schema string) *locker {
	return &locker{
		id:      lockOf(schema),
		timeout: m.options.LockTimeout,
		tables:  m.options.TableLockTimeout,
		waiting: func() { m.options.Progress(Event{Kind: EventWaiting}) },
	}
}

func (m *Migrator) read(ctx context.Context, db *sql.DB, target Target) (steps []Step, err error) {
	err = readOnly(ctx, db, func(tx *sql.Tx) error {
		applied, err := m.readVersions(ctx, tx)
		if err != nil {
			return err
		}
		steps, err = plan(m.migrations, applied, target)
		return err
	})
	return steps, err
}

// runStep applies or reverts one version.
func (m *Migrator) runStep(ctx context.Context, provider *goose.Provider, step Step) (Step, error) {
	m.options.Progress(Event{Kind: EventStarted, Step: step})
	started := time.Now()
	err := m.applyOrYield(ctx, provider, step)
	step.Duration = time.Since(started)
	if err != nil {
		err = &StepError{Step: step, Err: withSentinel(ctx, err)}
		m.options.Progress(Event{Kind: EventFailed, Step: step, Err: err})
		return step, err
	}
	m.options.Progress(Event{Kind: EventFinished, Step: step})
	return step, nil
}

// applyOrYield retries a version until it gets the tables that it needs. Between
// attempts, statements that queued behind it can pass.
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
		if time.Since(started) >= m.options.LockTimeout {
			return fmt.Errorf("%w: %w", ErrBusy, err)
		}
		m.options.Progress(Event{Kind: EventYielded, Step: step, Err: err})
		select {
		case <-ctx.Done():
			return ended(ctx)
		case <-time.After(yieldPause(attempt, m.options.TableLockTimeout)):
		}
	}
}

// isBusy reports a lock timeout or a deadlock.
func isBusy(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (refused.Code == lockNotAvailable || refused.Code == deadlockDetected)
}

// The SQLSTATEs after which a version is run again.
const (
	lockNotAvailable = "55P03"
	deadlockDetected = "40P01"
)

// yieldPause is at least as long as the wait was, and grows to eight times that,
// with jitter.
func yieldPause(attempt int, waited time.Duration) time.Duration {
	base := max(waited, 50*time.Millisecond) * time.Duration(min(attempt, 8))
	return base + rand.N(base/2)
}

// cause extracts the reason from an error of goose, whose own text for a failed
// version names only the file.
func cause(ctx context.Context, err error) error {
	if partial, ok := errors.AsType[*goose.PartialError](err); ok {
		err = withoutRollback(partial.Err)
	}
	refused, _ := errors.AsType[*pgconn.PgError](err)
	if refused != nil && refused.Code == dataLossCode {
		return fmt.Errorf("%w: %s", ErrDataLoss, refused.Message)
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", ended(ctx), err)
	case refused == nil:
		return err
	}
	switch refused.Code {
	case duplicateTable, duplicateObject, duplicateFunction:
		return &ExistsError{Name: quoted(refused.Message), Err: err}
	case insufficientRight:
		return fmt.Errorf("%w: %w", ErrPermission, err)
	}
	return err
}

// The SQLSTATEs that have a sentinel.
const (
	duplicateTable    = "42P07"
	duplicateObject   = "42710"
	duplicateFunction = "42723"
	insufficientRight = "42501"
)

// inQuotes matches one of our names in a server's message of any language.
var inQuotes = regexp.MustCompile(`["«»“”„'「]\s?([a-z0-9_]+)\s?["«»“”'」(]`)

func quoted(message string) string {
	if found := inQuotes.FindStringSubmatch(message); found != nil {
		return found[1]
	}
	return ""
}

// withoutRollback drops the error that goose adds if database/sql has already
// rolled back, as it does when the context ends.
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

// ended returns why ctx ended. The error also matches ctx.Err if its cause is
// another error.
func ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ctx.Err()) {
		return cause
	}
	return fmt.Errorf("%w: %w", ctx.Err(), cause)
}

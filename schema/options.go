package schema

import (
	"io/fs"
	"time"
)

// Options adjust a [Migrator]. The zero value is the default.
type Options struct {
	// LockTimeout bounds the wait for another process that is migrating the
	// same database: 0 means [DefaultLockTimeout], a negative value means one
	// try and no wait. The context bounds it too. At its end: [ErrLocked].
	LockTimeout time.Duration

	// TableLockTimeout bounds each wait of a version for a table that others are
	// using, in milliseconds at least: 0 means [DefaultTableLockTimeout], a
	// negative value means no bound. While a version waits, all who come after
	// it wait behind it. When the time is up the version is rolled back, and run
	// again after a pause that lets them pass, until LockTimeout is used up. At
	// its end: [ErrBusy].
	TableLockTimeout time.Duration

	// AllowDataLoss lets a revert drop tables and columns that hold data.
	// Without it such a revert is refused with [ErrDataLoss].
	AllowDataLoss bool

	// Progress, when set, is called at each version's start and end, and for a
	// wait for the lock. It is called by the goroutine that runs the
	// migrations, which waits for it.
	Progress func(Event)

	// Migrations replaces the embedded migrations: *.sql files at its root.
	// It is for tests of the migrator itself.
	Migrations fs.FS
}

// DefaultLockTimeout is the wait for the lock when Options do not set one.
const DefaultLockTimeout = 5 * time.Minute

// DefaultTableLockTimeout is shorter than PostgreSQL's deadlock_timeout (1 s): of
// a version and a writer who wait for each other, it is the version that yields.
const DefaultTableLockTimeout = 500 * time.Millisecond

func (o Options) tableLockTimeout() time.Duration {
	if o.TableLockTimeout == 0 {
		return DefaultTableLockTimeout
	}
	return max(o.TableLockTimeout, 0)
}

func (o Options) lockTimeout() time.Duration {
	if o.LockTimeout == 0 {
		return DefaultLockTimeout
	}
	return max(o.LockTimeout, 0)
}

func (o Options) migrations() fs.FS {
	if o.Migrations == nil {
		return embeddedFS()
	}
	return o.Migrations
}

func (o Options) progress(event Event) {
	if o.Progress != nil {
		o.Progress(event)
	}
}

package schema

import (
	"cmp"
	"io/fs"
	"time"
)

// Options adjust a [Migrator]. The zero value is the default.
type Options struct {
	// Schema is the schema of the tables. It becomes the whole search_path of the
	// migrator's connections, in the startup message. The name is 1 to 63 bytes
	// long, does not begin with pg_, and is used literally: it is neither quoted
	// nor lower-cased. A run up creates the schema if it does not exist; without
	// the CREATE privilege on the database the error is [ErrPermission]. A run down
	// keeps the schema, empty but for the version table. Empty: the search_path of
	// the URL, the role or the database, whose first schema must exist.
	//
	// Each schema has a lock of its own. A pooler must pass the parameter on, or ignore it while the role has
	// the same search_path; otherwise the error is [ErrSetting].
	Schema string

	// LockTimeout bounds the wait for another process that is migrating the
	// same database: 0 means [DefaultLockTimeout], a negative value means one
	// attempt without a wait. The context bounds it too. When it is used up the
	// error is [ErrLocked].
	LockTimeout time.Duration

	// TableLockTimeout bounds each wait of a version for a table that others are
	// using, and is at least a millisecond: 0 means [DefaultTableLockTimeout], a
	// negative value means no bound. While a version waits, later statements on the
	// table queue behind it. When the time is up the version is rolled back, and run
	// again after a pause that lets them pass, until LockTimeout is used up; the
	// error is then [ErrBusy].
	TableLockTimeout time.Duration

	// AllowDataLoss allows a revert to drop tables and columns that contain data.
	// Without it such a revert is refused with [ErrDataLoss].
	AllowDataLoss bool

	// Progress, if set, is called at the start and end of each version, and when
	// the run waits for the lock. The goroutine that runs the migrations calls it.
	Progress func(Event)

	// Migrations replaces the embedded migrations: *.sql files at its root.
	// It is for tests of the migrator itself.
	Migrations fs.FS
}

// DefaultLockTimeout is the default of [Options].LockTimeout.
const DefaultLockTimeout = 5 * time.Minute

// DefaultTableLockTimeout is the default of [Options].TableLockTimeout. It is
// shorter than PostgreSQL's deadlock_timeout (1 s), so that if a version and a writer
// wait for each other, the version yields.
const DefaultTableLockTimeout = 500 * time.Millisecond

// normal returns the options with their defaults. Negative bounds become zero.
func (o Options) normal() Options {
	o.LockTimeout = max(cmp.Or(o.LockTimeout, DefaultLockTimeout), 0)
	o.TableLockTimeout = max(cmp.Or(o.TableLockTimeout, DefaultTableLockTimeout), 0)
	if o.Progress == nil {
		o.Progress = func(Event) {}
	}
	if o.Migrations == nil {
		o.Migrations = embeddedFS()
	}
	return o
}

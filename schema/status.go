package schema

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"time"
)

// State says whether a version is in the database.
type State string

// The states of a version.
const (
	StatePending State = "pending"
	StateApplied State = "applied"
	// StateUnknown: applied by a newer binary; this one does not hold it.
	StateUnknown State = "unknown"
)

// Status is one version and its state in the database.
type Status struct {
	Version   int64
	Name      string // empty when State is StateUnknown
	State     State
	AppliedAt time.Time // zero when State is StatePending
	// OldestLibrary is the oldest library that works on the schema with this
	// version, by the newest version that it knows. Of a pending one it is what its
	// file declares, of others what the database says.
	OldestLibrary int64
}

// Status lists every version that the binary or the database has, oldest first.
func (m *Migrator) Status(ctx context.Context) ([]Status, error) {
	applied, err := m.applied(ctx)
	if err != nil {
		return nil, err
	}
	byVersion := map[int64]Status{}
	for _, row := range applied {
		byVersion[row.version] = Status{Version: row.version, State: StateUnknown, AppliedAt: row.appliedAt, OldestLibrary: row.oldestLibrary}
	}
	for _, migration := range m.migrations {
		status := byVersion[migration.Version]
		if status.State == "" {
			status.State, status.OldestLibrary = StatePending, migration.OldestLibrary
		} else {
			status.State = StateApplied
		}
		status.Version, status.Name = migration.Version, migration.Name
		byVersion[migration.Version] = status
	}
	list := make([]Status, 0, len(byVersion))
	for _, status := range byVersion {
		list = append(list, status)
	}
	slices.SortFunc(list, func(a, b Status) int { return cmp.Compare(a.Version, b.Version) })
	return list, nil
}

// Version returns the newest version in the database, 0 when there is none.
func (m *Migrator) Version(ctx context.Context) (int64, error) {
	applied, err := m.applied(ctx)
	if err != nil || len(applied) == 0 {
		return 0, err
	}
	return applied[0].version, nil
}

// Validate returns nil when the binary works on the database: it has the binary's
// version, or a newer one that allows the binary. Otherwise: [ErrBehind],
// [ErrAhead], [ErrGap] or [ErrUnknownVersion].
func (m *Migrator) Validate(ctx context.Context) error {
	applied, err := m.applied(ctx)
	if err != nil {
		return err
	}
	return validate(m.migrations, applied)
}

// Plan returns the steps that [Migrator.Run] would take now, without taking them.
func (m *Migrator) Plan(ctx context.Context, target Target) ([]Step, error) {
	applied, err := m.applied(ctx)
	if err != nil {
		return nil, err
	}
	return plan(m.migrations, applied, target)
}

func (m *Migrator) applied(ctx context.Context) (applied []appliedVersion, err error) {
	err = m.source.read(ctx, func(tx *sql.Tx) error {
		applied, err = readVersions(ctx, tx)
		return err
	})
	return applied, err
}

package schema

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/internal/pgsettings"
)

// State says whether a version is in the database.
type State string

// The states of a version.
const (
	StatePending State = "pending"
	StateApplied State = "applied"
	// StateUnknown: applied by a newer binary; this binary does not have it.
	StateUnknown State = "unknown"
)

// Status is one version and its state in the database.
type Status struct {
	Version   int64
	Name      string // empty when State is StateUnknown
	State     State
	AppliedAt time.Time // zero when State is StatePending
	// OldestLibrary is the oldest library that works on the schema with this
	// version, identified by the newest version that it knows. For a pending version
	// its file declares it; for others it is read from the database.
	OldestLibrary int64
}

// Status lists every version that the binary or the database has, oldest first.
func (m *Migrator) Status(ctx context.Context) (list []Status, err error) {
	defer func() { err = withSentinel(ctx, err) }()
	applied, err := m.applied(ctx)
	if err != nil {
		return nil, err
	}
	for _, row := range applied {
		list = append(list, Status{
			Version: row.Version, State: StateUnknown, AppliedAt: row.AppliedAt,
			OldestLibrary: row.OldestLibrary,
		})
	}
	for _, m := range m.migrations {
		i := slices.IndexFunc(list, func(s Status) bool { return s.Version == m.Version })
		if i < 0 {
			list = append(list, Status{Version: m.Version, Name: m.Name, State: StatePending, OldestLibrary: m.OldestLibrary})
		} else {
			list[i].Name, list[i].State = m.Name, StateApplied
		}
	}
	slices.SortFunc(list, func(a, b Status) int { return cmp.Compare(a.Version, b.Version) })
	return list, nil
}

// Version returns the newest version in the database, or 0 if there is none.
func (m *Migrator) Version(ctx context.Context) (version int64, err error) {
	defer func() { err = withSentinel(ctx, err) }()
	applied, err := m.applied(ctx)
	if err != nil || len(applied) == 0 {
		return 0, err
	}
	return applied[0].Version, nil
}

// Validate returns nil if the binary works on the database: it has the binary's
// version, or a newer one that allows the binary. Otherwise it returns [ErrBehind],
// [ErrAhead], [ErrGap] or [ErrUnknownVersion], or [ErrSetting] if the session does
// not have [Options].Schema.
func (m *Migrator) Validate(ctx context.Context) (err error) {
	defer func() { err = withSentinel(ctx, err) }()
	applied, err := m.applied(ctx)
	if err != nil {
		return err
	}
	return validate(m.migrations, applied)
}

// Plan returns the steps that [Migrator.Run] would take now, without taking them.
func (m *Migrator) Plan(ctx context.Context, target Target) (steps []Step, err error) {
	defer func() { err = withSentinel(ctx, err) }()
	applied, err := m.applied(ctx)
	if err != nil {
		return nil, err
	}
	return plan(m.migrations, applied, target)
}

func (m *Migrator) applied(ctx context.Context) (applied []appliedVersion, err error) {
	err = m.source.read(ctx, func(tx *sql.Tx) error {
		applied, err = m.readVersions(ctx, tx)
		return err
	})
	return applied, err
}

// readVersions reads the versions, and first checks that the session has the schema
// that Options.Schema names, if any.
func (m *Migrator) readVersions(ctx context.Context, tx *sql.Tx) ([]appliedVersion, error) {
	if m.options.Schema != "" {
		if err := pgsettings.CheckPlace(tx.QueryRowContext(ctx, pgsettings.PlaceSQL), m.options.Schema); err != nil {
			return nil, fmt.Errorf("schema: %w", err)
		}
	}
	return readVersions(func(query string) scanner { return tx.QueryRowContext(ctx, query) })
}

package schema

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// plan says which steps lead from the applied versions (newest first) to the
// target. A database that this binary does not understand is refused.
func plan(migrations []Migration, applied []appliedVersion, target Target) ([]Step, error) {
	if err := checkTarget(migrations, target); err != nil {
		return nil, err
	}
	if err := checkKnown(migrations, applied, target.direction); err != nil {
		return nil, err
	}
	have := isApplied(applied)
	var steps []Step
	for _, migration := range migrations {
		up := target.direction == DirectionUp
		if up && (have[migration.Version] || migration.Version > target.version) {
			continue
		}
		if !up && (!have[migration.Version] || migration.Version <= target.version) {
			continue
		}
		steps = append(steps, Step{Version: migration.Version, Name: migration.Name, Direction: target.direction})
	}
	if target.direction == DirectionDown {
		slices.SortFunc(steps, func(a, b Step) int { return cmp.Compare(b.Version, a.Version) })
	} else if err := checkGap(migrations, applied); err != nil {
		return nil, err
	}
	if target.steps > 0 {
		steps = steps[:min(target.steps, len(steps))]
	}
	return steps, nil
}

func checkTarget(migrations []Migration, target Target) error {
	if target.direction == "" {
		return fmt.Errorf("schema: empty target")
	}
	if target.steps < 0 || target.version < 0 {
		return fmt.Errorf("schema: steps and version of a target must not be negative")
	}
	if target.version == math.MaxInt64 || target.direction == DirectionDown && target.version == 0 {
		return nil
	}
	for _, migration := range migrations {
		if migration.Version == target.version {
			return nil
		}
	}
	return UnknownVersionError{Version: target.version}
}

// checkKnown refuses versions that this binary does not hold, but for those that
// came after it and allow it. Such a version is left alone: what it needs for its
// revert only its own binary knows.
func checkKnown(migrations []Migration, applied []appliedVersion, direction Direction) error {
	latest := latestOf(migrations)
	if len(applied) > 0 && applied[0].version > latest {
		ahead := AheadError{Have: applied[0].version, Want: latest, Oldest: oldestLibrary(applied)}
		if ahead.Oldest > latest {
			return ahead
		}
		if direction == DirectionDown {
			ahead.Revert = true
			return ahead
		}
	}
	for _, row := range applied {
		if row.version < latest && !slices.ContainsFunc(migrations, func(m Migration) bool { return m.Version == row.version }) {
			return UnknownVersionError{Version: row.version, Applied: true}
		}
	}
	return nil
}

// oldestLibrary is the oldest that works with all of the applied versions: a later
// one cannot take back that an earlier one needs more.
func oldestLibrary(applied []appliedVersion) (oldest int64) {
	for _, row := range applied {
		oldest = max(oldest, row.oldestLibrary)
	}
	return oldest
}

// validate returns nil when a binary with these migrations works on a database
// with these versions.
func validate(migrations []Migration, applied []appliedVersion) error {
	steps, err := plan(migrations, applied, TargetLatest())
	if err != nil || len(steps) == 0 {
		return err
	}
	behind := BehindError{Want: latestOf(migrations)}
	if len(applied) > 0 {
		behind.Have = applied[0].version
	}
	return behind
}

// checkGap refuses a database in which a version below the newest is missing.
func checkGap(migrations []Migration, applied []appliedVersion) error {
	if len(applied) == 0 {
		return nil
	}
	have := isApplied(applied)
	for _, migration := range migrations {
		if migration.Version < applied[0].version && !have[migration.Version] {
			return GapError{Missing: migration.Version, Have: applied[0].version}
		}
	}
	return nil
}

func isApplied(applied []appliedVersion) map[int64]bool {
	have := make(map[int64]bool, len(applied))
	for _, row := range applied {
		have[row.version] = true
	}
	return have
}

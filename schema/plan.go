package schema

import (
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
	up := target.direction == DirectionUp
	for _, migration := range migrations { // what is missing up to the target, or is there above it
		if have[migration.Version] != up && (migration.Version <= target.version) == up {
			steps = append(steps, Step{Version: migration.Version, Name: migration.Name, Direction: target.direction})
		}
	}
	if !up {
		slices.Reverse(steps)
	} else if err := checkGap(migrations, applied); err != nil {
		return nil, err
	}
	return steps[:min(target.steps, len(steps))], nil
}

func checkTarget(migrations []Migration, target Target) error {
	if target.direction == "" {
		return invalid("empty target")
	}
	if target.steps < 1 {
		return invalid("steps must be at least 1, not %d", target.steps)
	}
	if target.version < 0 {
		return invalid("the version of a target must not be negative")
	}
	if target.version == math.MaxInt64 || target.direction == DirectionDown && target.version == 0 {
		return nil
	}
	for _, migration := range migrations {
		if migration.Version == target.version {
			return nil
		}
	}
	return &UnknownVersionError{Version: target.version}
}

// checkKnown refuses versions that this binary does not have, except newer ones that
// allow it. Those are never reverted: only their own binary knows how.
func checkKnown(migrations []Migration, applied []appliedVersion, direction Direction) error {
	latest := latestOf(migrations)
	if len(applied) > 0 && applied[0].Version > latest {
		ahead := &AheadError{Have: applied[0].Version, Want: latest, Oldest: oldestLibrary(applied)}
		if ahead.Oldest > latest {
			return ahead
		}
		if direction == DirectionDown {
			ahead.Revert = true
			return ahead
		}
	}
	for _, row := range applied {
		if row.Version < latest && !slices.ContainsFunc(migrations,
			func(m Migration) bool { return m.Version == row.Version }) {
			return &UnknownVersionError{Version: row.Version, Applied: true}
		}
	}
	return nil
}

// oldestLibrary returns the oldest library that works with all applied versions: a
// later version cannot lower what an earlier one requires.
func oldestLibrary(applied []appliedVersion) (oldest int64) {
	for _, row := range applied {
		oldest = max(oldest, row.OldestLibrary)
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
	behind := &BehindError{Want: latestOf(migrations)}
	if len(applied) > 0 {
		behind.Have = applied[0].Version
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
		if migration.Version < applied[0].Version && !have[migration.Version] {
			return &GapError{Missing: migration.Version, Have: applied[0].Version}
		}
	}
	return nil
}

func isApplied(applied []appliedVersion) map[int64]bool {
	have := make(map[int64]bool, len(applied))
	for _, row := range applied {
		have[row.Version] = true
	}
	return have
}

package schema

import "math"

// Target says where a run or a plan ends.
type Target struct {
	direction Direction
	version   int64 // up: the last version to apply; down: the last one to keep
	steps     int   // the maximum
}

// TargetLatest applies all pending versions.
func TargetLatest() Target { return TargetUp(math.MaxInt64) }

// TargetUp applies the pending versions up to and including version. A database that
// is newer is not changed.
func TargetUp(version int64) Target {
	return Target{direction: DirectionUp, version: version, steps: math.MaxInt}
}

// TargetUpSteps applies at most steps pending versions; steps is at least 1.
func TargetUpSteps(steps int) Target {
	return Target{direction: DirectionUp, version: math.MaxInt64, steps: steps}
}

// TargetDown reverts every version above version; 0 reverts all. A database that is
// older is not changed.
func TargetDown(version int64) Target {
	return Target{direction: DirectionDown, version: version, steps: math.MaxInt}
}

// TargetDownSteps reverts at most steps versions, newest first; steps is at least 1.
func TargetDownSteps(steps int) Target {
	return Target{direction: DirectionDown, steps: steps}
}

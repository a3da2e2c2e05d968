package schema

import "math"

// Target says where a run, or a plan, is to end.
type Target struct {
	direction Direction
	version   int64 // up: apply up to it; down: revert what is above it
	steps     int   // 0: no bound
}

// TargetLatest applies everything that is pending.
func TargetLatest() Target { return Target{direction: DirectionUp, version: math.MaxInt64} }

// TargetUp applies what is pending up to version and including it. A database
// that is past it is left alone.
func TargetUp(version int64) Target { return Target{direction: DirectionUp, version: version} }

// TargetUpSteps applies at most steps pending versions.
func TargetUpSteps(steps int) Target {
	return Target{direction: DirectionUp, version: math.MaxInt64, steps: steps}
}

// TargetDown reverts every version above version; 0 reverts all. A database
// that is below it is left alone.
func TargetDown(version int64) Target { return Target{direction: DirectionDown, version: version} }

// TargetDownSteps reverts at most steps versions, newest first.
func TargetDownSteps(steps int) Target {
	return Target{direction: DirectionDown, steps: steps}
}

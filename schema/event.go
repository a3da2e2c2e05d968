package schema

import "time"

// Event reports the progress of a run to [Options].Progress.
type Event struct {
	Kind EventKind
	// Step is the version that the event is about. It is empty for
	// [EventWaiting]; its Duration is set at the end of the version.
	Step Step
	// Err is set for [EventFailed] and [EventYielded].
	Err error
}

// EventKind says what happened.
type EventKind string

// The kinds of events.
const (
	// EventWaiting: another process is migrating; the run waits for its lock.
	EventWaiting EventKind = "waiting"
	// EventStarted: a version's transaction is about to begin.
	EventStarted EventKind = "started"
	// EventYielded: the version could not lock a table in time; it was rolled back
	// and will be run again.
	EventYielded EventKind = "yielded"
	// EventFinished: the version is committed.
	EventFinished EventKind = "finished"
	// EventFailed: the version was rolled back, and the run ends.
	EventFailed EventKind = "failed"
)

// Direction says whether a version is applied or reverted.
type Direction string

// The two directions.
const (
	DirectionUp   Direction = "up"
	DirectionDown Direction = "down"
)

// Step is a version that a run has applied or reverted, or that a plan would.
type Step struct {
	Version   int64
	Name      string
	Direction Direction
	Duration  time.Duration // zero in a plan
}

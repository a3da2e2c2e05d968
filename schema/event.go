package schema

import "time"

// Event tells [Options].Progress how a run goes on.
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
	// EventYielded: the version could not have a table in time, was rolled back,
	// and will be run again.
	EventYielded EventKind = "yielded"
	// EventFinished: the version is committed.
	EventFinished EventKind = "finished"
	// EventFailed: the version was rolled back, and the run ends.
	EventFailed EventKind = "failed"
)

// Direction is the way in which a version is run.
type Direction string

// The two directions.
const (
	DirectionUp   Direction = "up"
	DirectionDown Direction = "down"
)

// Step is one version that a run applied or reverted, or that a plan would.
type Step struct {
	Version   int64
	Name      string
	Direction Direction
	Duration  time.Duration // zero in a plan
}

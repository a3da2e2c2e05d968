package audit

import (
	"fmt"
	"time"
)

// Stats are counts of entries since the writer was started. Every accepted entry is
// counted in exactly one of the other fields except Refused: see Check.
type Stats struct {
	// Accepted entries were accepted by Record, read from a spool that an earlier
	// process left, or made by the writer itself (gaps).
	Accepted int64
	// Written entries are committed, Known ones were in the trail already.
	Written, Known int64
	// Quarantined entries were refused by the database and are in its quarantine.
	Quarantined int64
	// Spooled entries are in the spool's file, and will be written from there.
	Spooled int64
	// Returned entries were returned by Close.
	Returned int64
	// Waiting entries are in the queue or are being written.
	Waiting int64

	// Refused entries were not accepted: the queue was full until their callers'
	// contexts ended, and Record returned an error.
	Refused int64
}

// Check returns an error if an accepted entry is missing or counted twice.
func (s Stats) Check() error {
	if sum := s.Written + s.Known + s.Quarantined + s.Spooled + s.Returned + s.Waiting; sum != s.Accepted {
		return fmt.Errorf("audit: %d entries accepted, but %d accounted for: %+v", s.Accepted, sum, s)
	}
	return nil
}

// HealthState says whether a writer can write.
type HealthState string

// The states of a writer.
const (
	// Healthy: the last attempt succeeded, or there was none.
	Healthy HealthState = "healthy"
	// Retrying: the database is unavailable, or does not answer. The writer
	// retries.
	Retrying HealthState = "retrying"
	// Misconfigured: the database refuses the login or a permission, or lacks a
	// table. The writer retries; an operator has to correct the problem.
	Misconfigured HealthState = "misconfigured"
)

// Health is the state of a writer.
type Health struct {
	State HealthState
	// Err is the error of the last attempt, Attempts the number of failed attempts
	// in a row, and Since the time of the first of them.
	Err      error
	Attempts int
	Since    time.Time
}

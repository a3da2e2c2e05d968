package audit

import (
	"fmt"
	"time"
)

// Stats count what became of entries since the writer began. Every accepted entry
// is in exactly one of the others but Refused: see Check.
type Stats struct {
	// Accepted entries were taken: by Record, from a spool that an earlier
	// process left, and the writer's own (gaps).
	Accepted int64
	// Written are committed, Known were in the trail already.
	Written, Known int64
	// Quarantined were refused by the database and set aside there.
	Quarantined int64
	// Spooled are in the spool's file, and will be written from there.
	Spooled int64
	// Returned came back to Close's caller.
	Returned int64
	// Waiting are in the queue or being written.
	Waiting int64

	// Refused were never accepted: their callers got an error, because the
	// queue was full until their contexts ended.
	Refused int64
}

// Check is the accounting: an error if an entry is missing, or counted twice.
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
	// Misconfigured: the database refuses the login or a permission, or lacks
	// a table. The writer retries, but somebody has to correct that.
	Misconfigured HealthState = "misconfigured"
)

// Health is the state of a writer.
type Health struct {
	State HealthState
	// Err is why the last attempt failed, Attempts how many did in a row, and
	// Since when the first of them did.
	Err      error
	Attempts int
	Since    time.Time
}

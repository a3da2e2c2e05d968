// Package audit records an audit trail that loses nothing, and shows that it was
// not changed. It is for services whose actions somebody may ask about later.
//
// A [Writer] takes entries and returns at once; one goroutine with a connection of
// its own writes them, in order and in batches. What cannot be written waits, and
// in the end comes back to the caller: nothing is dropped in silence. With a
// [Spool] entries survive the process while the database is away. Secrets are
// redacted before an entry leaves the process ([Redactor]).
//
// To record an entry in the transaction of what it tells of, use
// repo.Repositories.Audit instead; to wait until an entry is committed,
// [Writer.RecordWait].
//
// docs/audit.md says what is guaranteed, and what is not.
package audit

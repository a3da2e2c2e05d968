// Package audit records an audit trail in the background, seals it, and verifies
// that it was not changed. It is for services that may have to account for their
// actions.
//
// [Writer.Record] queues an entry, and waits only while the queue is full; one
// goroutine with a connection of its own writes entries in order and in batches.
// Entries that cannot be written are retried, and [Writer.Close] returns the
// remaining ones: each is written or returned. With a [Spool], entries survive the
// end of the process while the database is unavailable. A [Redactor] removes
// secrets before an entry leaves the process.
//
// To wait until an entry is committed, use [Writer.RecordWait]. To record an entry
// in the same transaction as the change that it describes, use
// repo.Repositories.Audit instead.
//
// A [Sealer] adds recorded entries to a Merkle tree, and [Verify] compares the
// trail with the tree. docs/audit.md says what is guaranteed, and what is not.
package audit

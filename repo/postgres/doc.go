// Package postgres implements package repo on PostgreSQL 13 and later.
//
// It is for services that have a connection pool of their own, or that write
// sessions in a transaction of their own ([Bind]). Other services open a store
// with package agentstore, which shares one pool per database.
//
// Package repo documents each operation. Every operation is one transaction, and
// most are one statement and one round trip. Package db is generated from the
// statements in queries/.
//
// # Rows of your own
//
// In [Store.InTx], [Tx] returns the transaction for the caller's own statements, which
// are then committed together with what the repositories write. In a transaction that
// the caller begins and ends, [Bind] returns repositories.
//
// # Retries
//
// An operation on the pool is retried a few times, with random, growing pauses, if
// the database aborted it because of a conflict with another transaction, or if
// nothing of it was sent. After a broken connection, reads are retried too, and so
// are writes that an id makes idempotent, such as Create, Append and AddUsage. An
// operation in a transaction is never retried alone: InTx runs the whole
// transaction again.
package postgres

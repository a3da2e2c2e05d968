// Package postgres implements package repo on PostgreSQL 13 and later.
//
// It is for services that have a connection pool of their own, or a transaction
// of their own in which sessions are to be written ([Bind]). Services that have
// neither open a store with the agentstore package, which shares one pool per
// database.
//
// Package repo documents each operation. Every operation is one transaction, and
// most are one statement and one round trip. The statements are in queries/, from
// which package db is generated.
//
// # Retries
//
// An operation on the pool is run again, a few times with a random and growing
// pause, when the database aborted it because of a conflict with another one, or
// when nothing of it was sent. Reads are also run again after a broken connection, and so
// are writes that an id makes repeatable, such as Create, Append and AddUsage. An
// operation in a transaction is never run again by itself: InTx runs the whole
// transaction again.
package postgres

// Package postgres is the contract of package repo on PostgreSQL 13 and later.
//
// It is for services that have a connection pool of their own, or a transaction
// of their own to put our rows into ([Bind]). Services that have neither open a
// store with the agentstore package, which shares one pool per database.
//
// What each operation promises stands in package repo. Every operation is one
// transaction: most are one statement, and one round trip. The statements are
// the files of queries/, generated into package db.
//
// # Retries
//
// An operation on the pool is run again, a few times with a random and growing
// pause, when the database gave it up for another one's sake, or when nothing
// of it was sent. Reads are also run again after a broken connection, and so
// are Create and Append, whose ids make them repeatable. An operation in a
// transaction is never run again by itself: InTx runs the whole again.
package postgres

// Package memory implements package repo in process. It is for unit tests, and for
// programs that need no database. It passes the same conformance suite as the store
// on PostgreSQL (package repotest). What it stores ends with the process.
//
// # Sharing
//
// Stores that [Store.Share] made share their data, until the last of them is
// closed. agentstore.Open returns such a store for each "memory://name".
//
// # Concurrency
//
// A store is safe for concurrent use. Operations are short and take turns.
//
// Units of work ([Store.InTx]) run one at a time, and for as long as one runs
// every other write waits, to whatever session, until it has ended or the
// writer's own context has. Reads never wait: they see what was committed.
//
// A unit of work that uses the store with its own context, instead of the
// repositories it was given, gets a [repo.InsideTxError]. A write with
// another context waits for the unit of work, until that context ends. So does a goroutine whose write the
// unit of work waits for, and Close, which has no context.
//
// # Copies
//
// All that goes in and all that comes out is a copy. A caller may change the
// bytes of a metadata, a payload or a budget it gave or got; nobody else sees
// that.
package memory

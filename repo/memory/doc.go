// Package memory is the contract of package repo in process: the embedded
// default of programs that need no database, and the store of users' unit
// tests. Its behaviour is held to PostgreSQL's by the same conformance suite,
// package repotest. What it stores is gone with the process.
//
// # Sharing
//
// Stores that [Store.Share] made share their data, until the last of them is
// closed. agentstore.Open gives such a one to each who opens "memory://name".
//
// # Concurrency
//
// A store is safe for concurrent use. Operations are short and take turns.
//
// Units of work ([Store.InTx]) run one at a time, and for as long as one runs
// every other write waits, to whatever session, until it has ended or the
// writer's own context has. Reads never wait: they see what was committed.
//
// So a unit of work that writes through the store, instead of through the
// repositories it was given, waits for itself; a deadline on the context ends
// that with [context.DeadlineExceeded]. The same goes for a goroutine whose
// write the unit of work waits for, and for Close, which has no context.
//
// # Copies
//
// All that goes in and all that comes out is a copy. A caller may change the
// bytes of a metadata, a payload or a budget it gave or got; nobody else sees
// that.
package memory

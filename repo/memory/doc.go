// Package memory implements package repo in memory. It is for unit tests, and for
// programs that need no database. It passes the same conformance suite as the store
// on PostgreSQL (package repotest). Its data is lost when the process ends.
//
// # Sharing
//
// Stores made with [Store.Share] share their data until the last of them is
// closed. agentstore.Open returns such a store for each "memory://name".
//
// # Concurrency
//
// A store is safe for concurrent use. Operations are short and run one at a time.
//
// Transactions ([Store.InTx]) run one at a time, too. While one runs, every other
// write waits, whatever its session, until the transaction or the writer's context
// ends. Reads never wait: they see what was committed.
//
// A transaction that uses the store with its own context, instead of the
// repositories it was given, gets a [repo.InsideTxError]. A write with another
// context waits for the transaction until that context ends. If the transaction in
// turn waits for that write, both wait that long. Close waits for the transaction
// without a limit, since it has no context.
//
// # Copies
//
// Arguments and results are copied. A caller may change the bytes of a metadata, a
// payload or a budget that it passed or received without affecting the store or
// other callers.
package memory

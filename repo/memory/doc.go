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
// repositories it was given, gets a [repo.InvalidError]. A write with another
// context waits for the transaction until that context ends. If the transaction in
// turn waits for that write, both wait that long. Close waits for the transaction
// without a limit, since it has no context.
//
// # Time
//
// The store reads the process's clock, or [Options.Clock], which a test moves: what is
// created, updated or was active gets its time; leases, claims and streams expire by it,
// and the followers and claims that wait for that are woken. Ids contain the process's
// time. Whatever runs on top of a store (repo.HoldLease, repo.Work, live.PartWriter,
// package audit) keeps the process's time, too: moving the clock is for it as if the
// process had been stopped for so long.
//
// In a bubble of testing/synctest a store without a clock follows the bubble's time, and
// so does what runs on top of it. Open it in the bubble, to which its channels then
// belong, under a name that no other test has. The store has no goroutines. What waits in
// it for a context, a time, a change or a transaction is durably blocked.
//
// # Copies
//
// Arguments and results are copied. A caller may change the bytes of a metadata, a
// payload or a budget that it passed or received without affecting the store or
// other callers.
package memory

// Package schema holds the database schema of agentstore: the SQL migrations,
// embedded, and the [Migrator] that runs them.
//
// It is for services that migrate their own database at start ([Up]), for
// deployment tools that want to see and steer each step ([Migrator]), and for
// the agentstore command. It imports no other public package of agentstore.
//
// # What a run guarantees
//
//   - Any number of processes may start at once. A run holds a PostgreSQL
//     advisory lock ([LockID]) from before it looks until it is done, so that
//     each version is applied exactly once and every caller succeeds.
//   - Each version is applied or reverted in one transaction, together with its
//     row in the version table ([VersionTable]). A failure, a cancelled context
//     or a killed process leaves the version before it, whole.
//   - The lock belongs to the server's session: it ends with the process,
//     however that ends. Where the server can notice it (PostgreSQL 14 and
//     later, on most systems), the session of a killed process ends within
//     seconds even in the middle of a long statement.
//   - A database that is newer than the binary is left alone where it allows the
//     binary (see Upgrades below), and refused otherwise ([ErrAhead]).
//   - A revert that would destroy rows is refused ([ErrDataLoss]) unless
//     [Options].AllowDataLoss is set.
//   - Reading calls (Status, Validate, Version, Plan, [CurrentVersion]) run in
//     read-only transactions, take no lock and create nothing.
//
// # Upgrades
//
// Each version declares in its file the oldest library that works on it, and the
// migrator records that with the version, in its transaction. A library works on
// a database that has its own version or a newer one, as long as each newer one
// allows it ([Check], [Migrator.Validate]); Up then has nothing to do, and Down
// refuses versions that it does not know. So instances of the last release may go
// on, and restart, while and after the next one migrates. The other way round a
// library works on no database that lacks a version of its own ([ErrBehind]):
// migrate first, then start the new instances.
//
// # Limits
//
// A run needs a direct connection, or a pooler in session mode. Behind a pooler
// in transaction mode, session locks do not hold: this is found out before a
// version commits, which then rolls back with [ErrPooled], but the lock may stay
// on one of the pooler's connections until that connection closes.
//
// The version table is found by the connection's search_path, as the tables of
// every query of agentstore are.
package schema

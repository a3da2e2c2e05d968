// Package schema holds the database schema of agentstore: the SQL migrations,
// embedded, and the [Migrator] that runs them.
//
// It is for services that migrate their own database at start ([Up]), for
// deployment tools that inspect and control each step ([Migrator]), and for
// the agentstore command. It imports no other public package of agentstore.
//
// # What a run guarantees
//
//   - Any number of processes may run it at once. A run holds a PostgreSQL
//     advisory lock (in pg_locks: classid 1634166126, objsubid 1; of the schema
//     public objid 1953723503) from before it reads the database's version until it is done, so that
//     each version is applied exactly once and every caller succeeds.
//   - Each version is applied or reverted in one transaction, together with its
//     row in the table agentstore_migrations. After a failure, a cancelled context
//     or a killed process, the database is intact, at the previous version.
//   - The lock belongs to the server's session and ends with it, even if the
//     process is killed. On PostgreSQL 14 and later, on most systems, the session
//     of a killed process ends within seconds, even during a long statement.
//   - A database that is newer than the binary is left unchanged if it allows the
//     binary (see Upgrades below), and refused otherwise ([ErrAhead]).
//   - A revert that would destroy rows is refused ([ErrDataLoss]) unless
//     [Options].AllowDataLoss is set.
//   - Reading calls (Status, Validate, Version, Plan) run in read-only
//     transactions. They and [Check] take no lock and create nothing.
//
// # Upgrades
//
// Each version declares in its file the oldest library that works on it, and the
// migrator records that with the version, in the same transaction. A library works
// on a database that has its own version or a newer one, as long as each newer one
// allows it ([Check], [Migrator.Validate]). On such a database a run up has nothing
// to do, and a run down refuses versions that it does not know. Instances of the
// previous release may therefore keep running, and restart, during and after the
// migration. A library does not work on a database that lacks one of its versions
// ([ErrBehind]): migrate first, then start the new instances.
//
// # Limits
//
// A run needs a direct connection, or a pooler in session mode. Behind a pooler
// in transaction mode, session locks do not hold. The migrator detects this before
// a version commits, and rolls back with [ErrPooled], but the lock may stay on one
// of the pooler's connections until that connection closes.
//
// The version table, like all tables of agentstore, is found through the
// connection's search_path.
// [Options].Schema sets it, so that several schemas of one
// database can each have the tables, independently of one another.
package schema

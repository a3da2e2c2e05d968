// Package agentstore keeps the durable state of AI-agent services in PostgreSQL. It is
// for Go services that would otherwise write this layer themselves. Begin with
// docs/tutorial.md, which makes a chat backend, or with the examples below.
//
// [Open] returns a store. A URL postgres://… opens a database, which it migrates if
// [Options].Migrate is set, and memory://name a store in memory, for tests. Package repo documents the
// operations and types:
//
//   - Sessions, whose messages are in exact order: [repo.Sessions]. Turns add messages,
//     state and usage together, once (AppendTurn), and Follow yields each message as it is
//     committed, by whichever process.
//   - State, keys with JSON values, of a session or shared by name: [repo.State].
//   - Streams, the parts of an answer while it is produced: [repo.Streams] and
//     live.PartWriter.
//   - Leases, one owner at a time with a token that fences writes off: [repo.Leases] and
//     [repo.HoldLease].
//   - Actions and plans, which have a lifecycle, and which workers claim: [repo.Actions],
//     [repo.Plans] and [repo.Work].
//   - The audit trail: [repo.Audit]. Package audit writes it in the background, redacts,
//     seals and verifies it.
//
// Package live serves sessions and streams over HTTP, as server-sent events. Package window
// chooses what goes into a prompt. Packages retention and erase remove what is old, and what
// is a person's. The modules in adapters have the stores that agent frameworks ask for: a2a,
// adk and mcp.
//
// Without Options.Migrate the database is migrated with the agentstore command or with
// package schema. [OpenPool] uses a pool of the caller's own, and postgres.Bind a transaction.
//
// Until version 1.0 a minor version may change the API of any package;
// CHANGELOG.md lists the changes. Package db is generated, and may change in any
// version.
package agentstore

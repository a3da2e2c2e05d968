// Package agentstore keeps the durable state of AI-agent services in PostgreSQL. It is
// for Go services that would otherwise write this layer themselves.
//
// [Open] returns a store, and package repo documents its operations and types:
//
//   - Sessions, whose messages are in exact order: [repo.Sessions]. Turns add messages,
//     state and usage together, once (AppendTurn), and Follow yields each message as it is
//     committed, by whichever process.
//   - State, keys with JSON values, of a session or shared by name: [repo.State].
//   - Streams, the parts of an answer while it is produced: [repo.Streams] and
//     [repo.PartWriter].
//   - Leases, one owner at a time with a token that fences writes off: [repo.Leases] and
//     [repo.Hold].
//   - Actions and plans, which have a lifecycle, and which workers claim: [repo.Actions],
//     [repo.Plans] and [repo.Work].
//   - The audit trail: [repo.Audit]. Package audit writes it in the background, redacts,
//     seals and verifies it.
//
// Package live serves sessions and streams over HTTP, as server-sent events. The modules
// in adapters have the stores that agent frameworks ask for: a2a, adk and mcp.
//
// The database must be migrated first: with the agentstore command, with package
// schema, or by setting [Options].Migrate. [OpenPool] uses a pool of the caller's own, and
// postgres.Bind a transaction. A URL memory://name opens a store in memory, for tests.
//
// Until version 1.0 a minor version may change the API of any package;
// CHANGELOG.md lists the changes. Package db is generated, and may change in any
// version.
package agentstore

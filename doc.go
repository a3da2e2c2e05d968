// Package agentstore keeps the durable state of AI-agent services in PostgreSQL:
// conversation sessions whose messages are in exact order, plans with a lifecycle,
// and an audit trail.
//
// It is for Go services that would otherwise write this layer themselves. [Open]
// returns a store; package repo documents what it does, and has the types that it
// takes and returns. The database is migrated beforehand, by the agentstore
// command, by package schema, or with [Options].Migrate.
//
// Until version 1.0 a minor version may change the interfaces of this package and
// of repo, repo/postgres, audit and schema; CHANGELOG.md says what has changed.
// Package db is generated, and may change in any version.
package agentstore

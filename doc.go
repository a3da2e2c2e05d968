// Package agentstore is durable state for AI-agent services on PostgreSQL:
// conversation sessions whose messages are in exact order.
//
// It is for Go services that would otherwise write this layer themselves. Open
// gives a store; what the store does stands in package repo, whose types it
// takes and returns. The database is migrated beforehand, by the agentstore
// command, by package schema, or with Options.Migrate.
//
// The packages repo, repo/postgres and schema are the stable interface next to
// this one. Package db is generated, and changes with the queries.
package agentstore

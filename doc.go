// Package agentstore keeps the durable state of AI-agent services in PostgreSQL:
// conversation sessions whose messages are in exact order, plans with a lifecycle,
// and an audit trail.
//
// It is for Go services that would otherwise write this layer themselves. [Open]
// returns a store; package repo documents its operations and types. The database
// must be migrated first: with the agentstore command, with package schema, or by
// setting [Options].Migrate.
//
// Until version 1.0 a minor version may change the API of any package;
// CHANGELOG.md lists the changes. Package db is generated, and may change in any
// version.
package agentstore

// Package postgres tests repo/postgres and agentstore.Open on a real server: the
// conformance suite in every mode, and what only PostgreSQL has, such as query plans,
// round trips, constraints, group commit, errors and connections.
package postgres

// Package postgres tests repo/postgres and agentstore.Open on a real server: the
// conformance suite in every mode, and what only PostgreSQL has: plans, round
// trips, constraints, lanes, errors, connections.
package postgres

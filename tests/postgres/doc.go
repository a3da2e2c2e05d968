// Package postgres tests repo/postgres and agentstore.Open on a real server: the
// conformance suite in every mode, and what only PostgreSQL has, such as query plans,
// round trips, constraints, group commit, errors and connections.
//
// The name of a file begins with what it is about: sessions, turns, streams, plans, claims, leases, fences, the audit
// trail, removal, scopes (views, spreads, state), bound stores, groups of writes, connections, the schema, or the store.
package postgres

// Package pgtest provides tests with a real PostgreSQL: one server for each process,
// and one database for each test.
//
// The server is the first of these that there is: the one that
// AGENTSTORE_TEST_DATABASE_URL names; a container, by testcontainers; a cluster made
// with the PostgreSQL binaries of the machine. AGENTSTORE_TEST_SERVER (url, container
// or local) selects one of them. If there is none, tests fail and say how to get one.
package pgtest

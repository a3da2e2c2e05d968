// Package pgtest gives tests a real PostgreSQL: one server for a run, one
// database for a test.
//
// The server is, in this order: the one that AGENTSTORE_TEST_DATABASE_URL names;
// a container, by testcontainers; a cluster made with the PostgreSQL binaries of
// the machine. AGENTSTORE_TEST_SERVER (url, container or local) asks for one of
// them alone. Without any of them tests fail, and say how to get one.
package pgtest

// Package faults tests what happens to acknowledged messages when something fails.
// Histories of concurrent operations are checked for linearizability, and each fault
// that a service can meet is injected repeatedly on a real server under 32 writers.
//
// It runs in a short form with the other tests, and in full with make faults (see
// [pgtest.Full]).
package faults

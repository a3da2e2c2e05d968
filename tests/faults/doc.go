// Package faults shows what becomes of acknowledged messages when things break:
// histories of concurrent operations are checked for linearizability, and every
// fault that a service meets is made, again and again, on a real server under 32
// writers.
//
// It runs in a short form with the other tests, and in full with make faults
// (AGENTSTORE_FAULTS=full).
package faults

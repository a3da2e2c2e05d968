// Package wrongstore tests the conformance suite: stores with a planted fault fail
// it, in the subtest that looks for the fault, and the store that they wrap passes
// it.
package wrongstore

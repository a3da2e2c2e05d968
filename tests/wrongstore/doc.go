// Package wrongstore shows that the conformance suite catches what it is for:
// stores that are wrong on purpose fail it, in the subtest that looks for their
// fault, and the store that they wrap passes it.
package wrongstore

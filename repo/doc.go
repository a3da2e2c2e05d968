// Package repo is the contract of agentstore: the domain types, the repository
// interfaces, their errors and limits.
//
// It is for code that uses a store, whichever implementation that is. It imports
// no database driver; repo/postgres and repo/memory implement it, and
// repo/repotest is the conformance suite that both pass. Package repo/rules is for
// authors of other implementations.
//
// # Order
//
// The messages of a session are numbered 0, 1, 2, … with no gap and no
// duplicate, whatever the number of writers, processes and crashes. This number
// alone defines the order: neither the client's clock nor the database's affects
// it.
//
// # Errors
//
// Every error matches one of this package's sentinels with [errors.Is], or is the
// context's own. Where callers need details, it is also a typed error for
// [errors.As]. No error contains a message's content, a payload or a password.
//
// # Contexts
//
// Every operation takes a context and stops when the context ends. A write that
// was already sent may have been committed: see [ErrUnknownOutcome].
//
// # Times
//
// Times are returned in UTC, with the precision of the database: microseconds. A
// time with a higher precision is truncated before it is stored.
package repo

// Package repo is the contract of agentstore: the domain types, the repository
// interfaces, their errors and the rules that every implementation keeps.
//
// It is for code that uses a store without caring which one it is. It imports
// no database driver; repo/postgres and repo/memory implement it, and
// repo/repotest is the conformance suite that both pass.
//
// # Order
//
// The messages of a session are numbered 0, 1, 2, … with no gap and no
// duplicate, whatever the number of writers, processes and crashes. The number
// is the order: clocks, the client's or the database's, play no part in it.
//
// # Errors
//
// Every error is one of the sentinels of this package for [errors.Is], and,
// where the facts matter to the caller, a typed error for [errors.As]. No error
// holds a message's content, a payload or a password.
//
// # Contexts
//
// Every operation takes a context and stops when it ends. A write that has been
// sent by then may have been committed: see [ErrUnknownOutcome].
//
// # Times
//
// Times come back in UTC and have microseconds, the precision of the database.
// A time given with more is cut off to the microsecond before it is stored.
package repo

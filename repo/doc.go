// Package repo is the contract of agentstore: the domain types, the repository interfaces, their errors and limits.
// repo/postgres and repo/memory implement it.
//
// The messages of a session are numbered 0, 1, 2, … with no gap and no duplicate, whatever the number of writers,
// processes and crashes. This number alone defines the order.
//
// Every error matches one of this package's sentinels with [errors.Is], or is the context's own; errors with
// details are typed. None contains a message's content, a payload or a password.
//
// Every operation stops when its context ends. A write that was already sent may have been committed: see
// [ErrUnknownOutcome].
//
// Times are in UTC, with a precision of microseconds; what is more precise is truncated. Lists by page yield what
// existed throughout exactly once.
package repo

// Package observe is how a program sees what a store does: agentstore.Options.Observer. Module
// otelagentstore makes traces and metrics of it. Nothing that an Observer is given has contents,
// keys, names or errors' texts: at most the id of a session.
package observe

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// Observer is told what a store does. Its methods are called by many goroutines at once, and delay
// what they are told of: they should be quick, and must not use the store.
type Observer interface {
	// Begin is called at the beginning of an operation, with its caller's context. The operation has
	// the context that Begin returns, which must be derived from it.
	Begin(ctx context.Context, op Operation) context.Context
	// End is called at its end, also if it panics, with the context that Begin returned.
	End(ctx context.Context, op Operation, result Result)
	// Write is called, with the operation's context, when a write that is committed together with other
	// callers' writes has its answer. An operation may have none, or several.
	Write(ctx context.Context, write Write)
	// BeginGroup is called before such writes are sent. Their statements have the context that it
	// returns, which must be derived from the given one. That is none of their callers'.
	BeginGroup(ctx context.Context, group Group) context.Context
	// EndGroup is called afterwards, with the context that BeginGroup returned, and the result of the
	// last attempt. The results of single writes may be others.
	EndGroup(ctx context.Context, group Group, result Result)
}

// Tracer is for observers that follow a cause to its effects. A plan that is made, by itself or in a turn,
// without a repo.UseAction.Trace gets the operation's trace.
type Tracer interface {
	// Trace returns what stands for the trace of an operation's context, as text for the worker of the
	// plan, perhaps hours later. Empty: none. More than 512 bytes are not stored.
	Trace(ctx context.Context) string
}

// Operation is a call of a method of a store. A method that returns an iterator is the loop over it,
// with the time that the loop's body takes.
type Operation struct {
	// Name is the method's, after its repository's unless it is one of Sessions: "append_turn",
	// "plans.claim", "in_tx".
	Name string
	// Session is the session that it is about. Zero: none, several, or one that is found by its key.
	Session repo.ID
	// InTx: it is in a transaction, of InTx or of postgres.Bind.
	InTx  bool
	Begun time.Time
}

// Write is a write that was committed together with others.
type Write struct {
	Kind string // as of Group
	// Wait is the time until it was sent, and Commit from then until its answer. Zero: it never was.
	Wait, Commit time.Duration
	// Group is the number of writes that were sent together when it was sent last.
	Group int
	// Attempts says how often it was sent. The ones before the last found a row locked, or failed.
	Attempts int
	Result   Result
}

// Group is a number of writes that are committed together.
type Group struct {
	Kind string // "append" (also turns), "parts" (of streams), "transition", "claim" or "renew"
	Size int
	// Waits: they are of one session, and wait for what others lock.
	Waits bool
	Begun time.Time
	// Callers yields the contexts of the operations, until BeginGroup returns.
	Callers iter.Seq[context.Context]
}

// Result says how something ended.
type Result struct {
	// Error is the kind of error: "" for none; the sentinel's, such as "not_found",
	// "contention" or "unknown_outcome"; "fenced" or "lease_lost"; "canceled" or "deadline_exceeded" of
	// the context; "other".
	Error string
	// SQLState is the server's. Empty: it has none.
	SQLState string
}

// kinds has the names of the sentinels, in the order of repo.Sentinels.
var kinds = []string{
	"invalid", "gone", "not_found", "conflict", "limit", "import", "stream_failed", "closed",
	"unavailable", "permission", "contention", "unknown_outcome", "schema",
}

// ResultOf returns the result of an operation that returned err.
func ResultOf(err error) Result {
	if err == nil {
		return Result{}
	}
	result := Result{Error: kindOf(err)}
	if server, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		result.SQLState = server.SQLState()
	}
	return result
}

func kindOf(err error) string {
	if _, fenced := errors.AsType[*repo.FencedError](err); fenced {
		return "fenced"
	}
	if _, lost := errors.AsType[*repo.LeaseLostError](err); lost {
		return "lease_lost"
	}
	for i, sentinel := range repo.Sentinels() {
		if errors.Is(err, sentinel) {
			return kinds[i]
		}
	}
	switch {
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline_exceeded"
	}
	return "other"
}

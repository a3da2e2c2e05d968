package effect

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/seed-df90f812/agentstore/internal/jsonvalue"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

const (
	// DefaultTimeout is how long a call may take if the policy does not say it.
	DefaultTimeout = time.Minute
	// MaxTimeout is how long a call may take at most.
	MaxTimeout = 24 * time.Hour
	// Margin is how long after its time-out a call is taken to be under way, by the database's clock. A process that
	// stands still between its look at the time and the sending overruns it, and so does a request in the network.
	Margin = 10 * time.Second
	// MaxResultBytes bounds a result.
	MaxResultBytes = limits.MaxStateValueBytes
)

// Key names an effect. It has one set of arguments.
type Key struct {
	Session repo.ID
	// Call is unique in the session, such as the model's call id. JoinKey("effect-result", Call) has at most 1,024 bytes.
	Call string
}

// Policy says how an effect is made. The zero value makes it once, and leaves what is unknown to [Resolve]. Functions
// may be called again after a conflict, and several processes may call them at once.
type Policy struct {
	// Timeout is how long do may take: its context ends then. Others take the call to be under way until Margin later.
	// From a millisecond to MaxTimeout; zero: DefaultTimeout.
	Timeout time.Duration
	// Sequence is the sequence of the message with the call, for [Crossed]. Nil: the first message whose call id is
	// Key.Call says where the effect belongs.
	Sequence *int64
	// Permit is called in the transaction that reserves the effect, which is not reserved if Permit returns an error: it
	// uses up an approval, or a part of a budget. It is called once for an effect, and not for each time that it is sent.
	Permit func(ctx context.Context, tx repo.Repositories) error
	// HonoursKey is how long the remote answers a repeated idempotency key (Effect.IdempotencyKey) without acting again.
	// An unknown effect is sent again with the same key if the call ends within that time since it was first sent.
	// Zero: the remote does not honour keys.
	HonoursKey time.Duration
	// Reconcile, if set, finds out whether an unknown effect happened, before anything is sent again. Its context ends
	// after Timeout. With an error, or with CannotTell, the effect stays unknown.
	Reconcile func(ctx context.Context, unknown Effect) (Answer, error)
	// Ask, if set, asks a person about an unknown effect that is neither reconciled nor sent again, such as by an
	// approval that is made with tx: once for each time that it was sent. The person's answer goes to [Resolve], with
	// Answer.OfAttempt(unknown.Attempts).
	Ask func(ctx context.Context, tx repo.Repositories, unknown Effect) error
	// Turn, if set, returns what is added to the session together with the result, in one transaction, such as the
	// tool's message. SessionID and State are added to it. A turn that the store refuses is left out: see [Error].
	Turn func(result json.RawMessage) repo.Turn
}

// Answer says what has become of an effect. The zero value is CannotTell.
type Answer struct {
	state   State
	result  json.RawMessage
	reason  string
	attempt int64
}

// CannotTell leaves an effect unknown.
func CannotTell() Answer { return Answer{} }

// Happened says that the effect happened, with a result as do returns it.
func Happened(result json.RawMessage) Answer { return Answer{state: StateDone, result: orNull(result)} }

// DidNotHappen says that the effect has not happened, and will not happen by what was sent so far. The next call of
// Once sends it again; after Reconcile's answer the same call does.
func DidNotHappen() Answer { return Answer{state: StateFree} }

// GivenUp says that the effect has not happened, and is not to be sent again: it has failed for good. The reason is
// stored, at most 64 KiB of it.
func GivenUp(reason string) Answer {
	return Answer{state: StateFailed, reason: repo.ReasonOf(errors.New(cmp.Or(reason, "given up")))} //nolint:err113
}

// OfAttempt returns the answer about one sending (Effect.Attempts): once it was sent again, [Resolve] refuses it, such
// as when it is repeated late.
func (a Answer) OfAttempt(attempt int64) Answer {
	a.attempt = attempt
	return a
}

func (k Key) scope() repo.Scope { return repo.Scope{SessionID: k.Session} }
func (k Key) recordKey() string { return repo.JoinKey("effect", k.Call) }
func (k Key) resultKey() string { return repo.JoinKey("effect-result", k.Call) }

// idempotency returns the key that the remote gets. It follows from the session and the call: also a copy of the
// session, and a database that was restored to before the reservation, send the same one.
func (k Key) idempotency() string { return hashed("agentstore effect", k.Session, k.Call).String() }

// hashed returns a UUID of version 8 (RFC 9562) that follows from values.
func hashed(values ...any) repo.ID {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", values))
	id := uuid.UUID(sum[:16])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	return repo.ID(id)
}

// rule is a rule that arguments follow.
type rule struct {
	broken        bool
	field, reason string
}

func check(key Key, p Policy, others ...rule) error {
	for _, rule := range append([]rule{
		{key.Session.IsZero(), "key.session", "is zero"},
		{key.Call == "", "key.call", "is empty"},
		{len(key.resultKey()) > limits.MaxStateKeyBytes, "key.call", "is too long"},
		{p.Timeout < time.Millisecond || p.Timeout > MaxTimeout, "policy.timeout", "is not from a millisecond to 24 hours"},
		{p.HonoursKey < 0, "policy.honoursKey", "is below 0"},
		{p.Sequence != nil && *p.Sequence < 0, "policy.sequence", "is below 0"},
	}, others...) {
		if rule.broken {
			return &repo.InvalidError{Field: rule.field, Reason: rule.reason}
		}
	}
	return nil
}

func orNull(value json.RawMessage) json.RawMessage {
	if value == nil {
		return json.RawMessage("null")
	}
	return value
}

// hashOf returns a hash of the canonical form of arguments: neither white space nor the order of members matters, and
// numbers are compared as they are written.
func hashOf(arguments json.RawMessage) (string, error) {
	arguments = orNull(arguments)
	if err := jsonvalue.Check(arguments, limits.MaxJSONDepth); err != nil {
		return "", &repo.InvalidError{Field: "arguments", Reason: err.Error()}
	}
	canonical, err := jsonvalue.AppendCanonical(nil, arguments)
	return hashed("arguments", string(canonical)).String(), err
}

// unfit returns why a result cannot be stored, or nil.
func unfit(result json.RawMessage) error {
	if len(result) > MaxResultBytes {
		return &repo.InvalidError{Field: "result", Reason: "has more than 1 MiB"}
	}
	if err := jsonvalue.Check(result, limits.MaxJSONDepth); err != nil {
		return &repo.InvalidError{Field: "result", Reason: err.Error()}
	}
	return nil
}

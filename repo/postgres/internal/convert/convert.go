// Package convert converts between rows and the types of package repo, and has what the code knows of the schema by
// name.
package convert

import (
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// UUID returns an id as an argument.
func UUID(id repo.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }

// UUIDs is UUID for many.
func UUIDs(ids []repo.ID) []pgtype.UUID { return Each(ids, UUID) }

// Nullable returns nil, which is stored as null, for an empty name.
func Nullable(name string) *string {
	if name == "" {
		return nil
	}
	return &name
}

// JSONText returns JSON as text, and nil for none. In the exec modes that do not ask the
// server for types, pgx would send bytes as a bytea.
func JSONText(document json.RawMessage) *string {
	if document == nil {
		return nil
	}
	text := string(document)
	return &text
}

// FromNullable reads what Nullable stores.
func FromNullable(name *string) string {
	if name == nil {
		return ""
	}
	return *name
}

// Optional returns the value of an argument that may be nil. A separate parameter tells
// the query whether it is.
func Optional(name *string) *string {
	if name == nil {
		return nil
	}
	return Nullable(*name)
}

// Session returns a session as a view has it.
func Session(view string, row db.SessionGetRow) repo.Session {
	s := row.Session
	return repo.Session{
		ID: s.ID.Bytes, Namespace: s.Namespace, Key: FromNullable(s.Key), Owner: FromNullable(s.Owner),
		Actor: FromNullable(s.Actor), AutomationProfile: FromNullable(s.AutomationProfile), Metadata: s.Metadata,
		Usage: Usage(s.InputTokens, s.OutputTokens, s.CostNanos), Budget: (*repo.Cost)(s.BudgetNanos),
		FencedOnly: row.FencedOnly, MessageCount: row.NextSequence, Version: s.Version,
		Plans: LinkedPlans(view, row.Plans), CreatedAt: s.CreatedAt.UTC(), UpdatedAt: row.ChangedAt.UTC(),
	}
}

// Usage returns a usage.
func Usage(inputTokens, outputTokens, costNanos int64) repo.Usage {
	return repo.Usage{InputTokens: inputTokens, OutputTokens: outputTokens, Cost: repo.Cost(costNanos)}
}

// Message returns a message.
func Message(row db.Message) repo.Message {
	message := repo.Message{
		SessionID: row.SessionID.Bytes, ID: row.ID.Bytes, Sequence: row.Sequence, Role: repo.Role(row.Role),
		Content: row.Content, Metadata: row.Metadata, Payload: row.Payload, Kind: FromNullable(row.Kind),
		CallID: FromNullable(row.CallID), Counter: FromNullable(row.Counter), CreatedAt: row.CreatedAt.UTC(),
	}
	message.Follows, message.Tokens = Follows(row.Sequence, row.Follows), Tokens(row.Tokens)
	if row.OccurredAt != nil {
		message.OccurredAt = row.OccurredAt.UTC()
	}
	return message
}

// Follows returns what a message follows.
func Follows(sequence int64, follows *int64) int64 {
	if follows != nil {
		return *follows
	}
	return sequence - 1
}

// Tokens reads a number of tokens, 0 for null.
func Tokens(tokens *int32) int64 {
	if tokens == nil {
		return 0
	}
	return int64(*tokens)
}

// StateValue returns a key with its value.
func StateValue(key string, value []byte, version int64, updatedAt time.Time) repo.StateValue {
	return repo.StateValue{Key: key, Value: value, Version: version, UpdatedAt: updatedAt.UTC()}
}

// SessionOfScope returns the session whose own the scope is, or null.
func SessionOfScope(scope repo.Scope) pgtype.UUID {
	return pgtype.UUID{Bytes: scope.SessionID, Valid: scope.Name == ""}
}

// Scopes returns scopes as the arrays that a statement unnests. The arrays of other statements have the same type.
func Scopes(scopes []repo.Scope) (params db.TurnScopeVersionsParams) {
	for _, scope := range scopes {
		namespace, name := rules.SplitView(scope.Name)
		params.SessionIds = append(params.SessionIds, SessionOfScope(scope))
		params.Namespaces, params.Names = append(params.Namespaces, namespace), append(params.Names, name)
	}
	return params
}

// Places returns the places of scopes in the arrays, of which the first is 1.
func Places(scopes []repo.Scope) map[repo.Scope]int64 {
	places := make(map[repo.Scope]int64, len(scopes))
	for i, scope := range scopes {
		places[scope] = int64(i + 1)
	}
	return places
}

// Messages holds messages as the arrays that a statement unnests. Some are shorter where the last messages have none.
type Messages struct{ db.MessageInsertParams }

// Add adds a message.
func (c *Messages) Add(owner pgtype.UUID, sequence int64, createdAt time.Time, m *repo.NewMessage) {
	place := len(c.Ids)
	c.Owners, c.Sequences = append(c.Owners, owner), append(c.Sequences, sequence)
	c.Ids, c.Roles = append(c.Ids, UUID(m.ID)), append(c.Roles, string(m.Role))
	c.Contents, c.Metadatas = append(c.Contents, m.Content), append(c.Metadatas, string(m.Metadata))
	c.Payloads = append(c.Payloads, m.Payload)
	c.OccurredAts, c.CreatedAts = append(c.OccurredAts, m.OccurredAt), append(c.CreatedAts, createdAt)
	c.Kinds = appendAt(c.Kinds, place, m.Kind, "")
	c.CallIds = appendAt(c.CallIds, place, m.CallID, "")
	c.Tokens = appendAt(c.Tokens, place, int32(m.Tokens), 0)
	c.Counters = appendAt(c.Counters, place, m.Counter, "")
}

// TheOneBefore stands for a message that follows the one before it.
const TheOneBefore = -2

// Follow sets what the next message to be added follows. Nil: the one before it.
func (c *Messages) Follow(follows *int64) {
	if follows != nil {
		c.Follows = appendAt(c.Follows, len(c.Ids), *follows, TheOneBefore)
	}
}

// appendAt puts a value at a place behind a column's values, with empty ones in
// between. An empty value is left out.
func appendAt[Value comparable](column []Value, place int, value, empty Value) []Value {
	if value == empty {
		return column
	}
	for len(column) < place {
		column = append(column, empty)
	}
	return append(column, value)
}

// UnlessZero is null for the zero value.
func UnlessZero[V comparable](value V) *V {
	var zero V
	if value == zero {
		return nil
	}
	return &value
}

// Each converts each row to a value.
func Each[Row, Value any](rows []Row, valueOf func(Row) Value) []Value {
	values := make([]Value, len(rows))
	for i, row := range rows {
		values[i] = valueOf(row)
	}
	return values
}

// LeaseNamespace is the namespace of the leases of sessions and plans, and in a store that is no view of all.
const LeaseNamespace = repo.DefaultNamespace

// SessionNotFound returns the error of a session that does not exist.
func SessionNotFound(id repo.ID) error { return &repo.NotFoundError{Kind: "session", ID: id} }

// Lease returns the lease with a key.
func Lease(key repo.LeaseKey, row db.LeaseGetRow) repo.Lease {
	return repo.Lease{
		Key: key, Owner: row.Owner, Fence: row.Fence, AcquiredAt: row.AcquiredAt.UTC(),
		ExpiresAt: row.ExpiresAt.UTC(),
	}
}

// Stream returns a stream.
func Stream(row db.StreamGetRow) repo.Stream {
	return repo.Stream{
		Key: row.Key, ID: row.ID.Bytes, Session: row.SessionID.Bytes, Owner: row.Owner, Fence: row.Fence,
		Status: repo.StreamStatus(row.Status), Reason: row.Reason, Next: row.NextSequence, TTL: FromMicros(row.TtlMicros),
		OpenedAt: row.OpenedAt.UTC(), ExpiresAt: row.ExpiresAt.UTC(),
	}
}

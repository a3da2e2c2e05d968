package postgres

import (
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// This file and convert_plan.go convert between rows and the types of package repo.

func toUUID(id repo.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }

func toUUIDs(ids []repo.ID) []pgtype.UUID { return each(ids, toUUID) }

// toNullable returns nil, which is stored as null, for an empty name.
func toNullable(name string) *string {
	if name == "" {
		return nil
	}
	return &name
}

// toText returns JSON as text, and nil for none. In the exec modes that do not ask the
// server for types, pgx would send bytes as a bytea.
func toText(document json.RawMessage) *string {
	if document == nil {
		return nil
	}
	text := string(document)
	return &text
}

func fromNullable(name *string) string {
	if name == nil {
		return ""
	}
	return *name
}

// optional returns the value of an argument that may be nil. A separate parameter tells
// the query whether it is.
func optional(name *string) *string {
	if name == nil {
		return nil
	}
	return toNullable(*name)
}

func sessionOf(view string, row db.SessionGetRow) repo.Session {
	s := row.Session
	return repo.Session{
		ID:                s.ID.Bytes,
		Namespace:         s.Namespace,
		Key:               fromNullable(s.Key),
		Owner:             fromNullable(s.Owner),
		Actor:             fromNullable(s.Actor),
		AutomationProfile: fromNullable(s.AutomationProfile),
		Metadata:          s.Metadata,
		Usage:             usageOf(s.InputTokens, s.OutputTokens, s.CostNanos),
		Budget:            (*repo.Cost)(s.BudgetNanos),
		FencedOnly:        row.FencedOnly,
		MessageCount:      row.NextSequence,
		Version:           s.Version,
		Plans:             linkedPlansOf(view, row.Plans),
		CreatedAt:         s.CreatedAt.UTC(),
		UpdatedAt:         row.ChangedAt.UTC(),
	}
}

func usageOf(inputTokens, outputTokens, costNanos int64) repo.Usage {
	return repo.Usage{InputTokens: inputTokens, OutputTokens: outputTokens, Cost: repo.Cost(costNanos)}
}

func messageOf(row db.Message) repo.Message {
	message := repo.Message{
		SessionID: row.SessionID.Bytes,
		ID:        row.ID.Bytes,
		Sequence:  row.Sequence,
		Role:      repo.Role(row.Role),
		Content:   row.Content,
		Metadata:  row.Metadata,
		Payload:   row.Payload,
		Kind:      fromNullable(row.Kind),
		CallID:    fromNullable(row.CallID),
		Counter:   fromNullable(row.Counter),
		CreatedAt: row.CreatedAt.UTC(),
	}
	message.Follows, message.Tokens = followsOf(row.Sequence, row.Follows), tokensOf(row.Tokens)
	if row.OccurredAt != nil {
		message.OccurredAt = row.OccurredAt.UTC()
	}
	return message
}

// followsOf returns what a message follows.
func followsOf(sequence int64, follows *int64) int64 {
	if follows != nil {
		return *follows
	}
	return sequence - 1
}

func tokensOf(tokens *int32) int64 {
	if tokens == nil {
		return 0
	}
	return int64(*tokens)
}

func stateValueOf(key string, value []byte, version int64, updatedAt time.Time) repo.StateValue {
	return repo.StateValue{Key: key, Value: value, Version: version, UpdatedAt: updatedAt.UTC()}
}

// sessionOfScope returns the session whose own the scope is, or null.
func sessionOfScope(scope repo.Scope) pgtype.UUID {
	return pgtype.UUID{Bytes: scope.SessionID, Valid: scope.Name == ""}
}

// scopeColumns holds scopes as the arrays that a statement unnests.
type scopeColumns struct {
	sessions          []pgtype.UUID
	namespaces, names []string
}

func newScopeColumns(scopes []repo.Scope) (c scopeColumns) {
	for _, scope := range scopes {
		c.sessions = append(c.sessions, sessionOfScope(scope))
		namespace, name := rules.SplitView(scope.Name)
		c.namespaces = append(c.namespaces, namespace)
		c.names = append(c.names, name)
	}
	return c
}

// placesOf returns the places of scopes in the arrays, of which the first is 1.
func placesOf(scopes []repo.Scope) map[repo.Scope]int64 {
	places := make(map[repo.Scope]int64, len(scopes))
	for i, scope := range scopes {
		places[scope] = int64(i + 1)
	}
	return places
}

// columns holds messages as the arrays that a statement unnests. Some are shorter where the last messages have none.
type columns struct{ db.MessageInsertParams }

func (c *columns) add(owner pgtype.UUID, sequence int64, createdAt time.Time, m *repo.NewMessage) {
	place := len(c.Ids)
	c.Owners, c.Sequences = append(c.Owners, owner), append(c.Sequences, sequence)
	c.Ids, c.Roles = append(c.Ids, toUUID(m.ID)), append(c.Roles, string(m.Role))
	c.Contents, c.Metadatas = append(c.Contents, m.Content), append(c.Metadatas, string(m.Metadata))
	c.Payloads = append(c.Payloads, m.Payload)
	c.OccurredAts, c.CreatedAts = append(c.OccurredAts, m.OccurredAt), append(c.CreatedAts, createdAt)
	c.Kinds = appendAt(c.Kinds, place, m.Kind, "")
	c.CallIds = appendAt(c.CallIds, place, m.CallID, "")
	c.Tokens = appendAt(c.Tokens, place, int32(m.Tokens), 0)
	c.Counters = appendAt(c.Counters, place, m.Counter, "")
}

// theOneBefore stands for a message that follows the one before it.
const theOneBefore = -2

// follow sets what the next message to be added follows. Nil: the one before it.
func (c *columns) follow(follows *int64) {
	if follows != nil {
		c.Follows = appendAt(c.Follows, len(c.Ids), *follows, theOneBefore)
	}
}

// appendAt puts a value at a place behind those that a column has, with empty ones in
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

// unlessZero is null for the zero value.
func unlessZero[V comparable](value V) *V {
	var zero V
	if value == zero {
		return nil
	}
	return &value
}

package postgres

import (
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
)

// Rows become domain values here and nowhere else.

func toUUID(id repo.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }

// toNullable stores an empty name as null.
func toNullable(name string) *string {
	if name == "" {
		return nil
	}
	return &name
}

// toText passes JSON as text, null for none: in the exec modes that do not ask
// the server for types, pgx takes its bytes for a bytea.
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

// optional dereferences an argument that may be left out; the query is told
// separately whether it was.
func optional(name *string) *string {
	if name == nil {
		return nil
	}
	return toNullable(*name)
}

func sessionOf(row db.SessionGetRow) repo.Session {
	return repo.Session{
		ID:                row.ID.Bytes,
		Namespace:         row.Namespace,
		Actor:             fromNullable(row.Actor),
		AutomationProfile: fromNullable(row.AutomationProfile),
		Metadata:          row.Metadata,
		Usage: repo.Usage{
			InputTokens:  row.InputTokens,
			OutputTokens: row.OutputTokens,
			Cost:         repo.Cost(row.CostNanos),
		},
		Budget:       (*repo.Cost)(row.BudgetNanos),
		MessageCount: row.NextSequence,
		Plans:        linkedPlansOf(row.PlanIds, row.PlanStages),
		CreatedAt:    row.CreatedAt.UTC(),
		UpdatedAt:    row.UpdatedAt.UTC(),
	}
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
		CreatedAt: row.CreatedAt.UTC(),
	}
	if row.OccurredAt != nil {
		message.OccurredAt = row.OccurredAt.UTC()
	}
	return message
}

// columns is a batch of messages as the arrays that a statement unnests.
type columns struct {
	ids         []pgtype.UUID
	roles       []string
	contents    []string
	metadatas   []string
	payloads    [][]byte
	occurredAts []time.Time
}

func newColumns(size int) columns {
	return columns{
		ids:         make([]pgtype.UUID, 0, size),
		roles:       make([]string, 0, size),
		contents:    make([]string, 0, size),
		metadatas:   make([]string, 0, size),
		payloads:    make([][]byte, 0, size),
		occurredAts: make([]time.Time, 0, size),
	}
}

func (c *columns) add(id repo.ID, role repo.Role, content string, metadata json.RawMessage, payload []byte, occurredAt time.Time) {
	c.ids = append(c.ids, toUUID(id))
	c.roles = append(c.roles, string(role))
	c.contents = append(c.contents, content)
	c.metadatas = append(c.metadatas, string(metadata))
	c.payloads = append(c.payloads, payload)
	c.occurredAts = append(c.occurredAts, occurredAt)
}

func (c *columns) addAll(messages []repo.NewMessage) {
	for i := range messages {
		m := &messages[i]
		c.add(m.ID, m.Role, m.Content, m.Metadata, m.Payload, m.OccurredAt)
	}
}

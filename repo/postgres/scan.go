package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
)

// messageScanner stands between a generated query of whole messages and the
// connection, and reads the rows itself, into messages. The generated function
// reads each row into a struct of its own, in a slice that grows, of which every
// message is then copied: that is twice the memory, and half of a stream's speed
// (docs/performance.md). It finds the rows read to their end, or to their error.
type messageScanner struct {
	db.DBTX
	messages []repo.Message
}

func (s *messageScanner) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows, err := s.DBTX.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	var (
		row        db.Message
		role       roleName
		occurredAt optionalTime
	)
	// One set of destinations for all rows: only what a message keeps is
	// allocated for each. The order is that of the table's columns.
	destinations := []any{
		&row.SessionID, &row.Sequence, &row.ID, &role, &row.Content, &row.Metadata,
		&row.Payload, &occurredAt, &row.CreatedAt,
	}
	s.messages = s.messages[:0] // of an attempt that failed
	for rows.Next() {
		row.Metadata, row.Payload = nil, nil
		if rows.Scan(destinations...) != nil {
			break // rows has closed itself and keeps the error, as Err
		}
		s.messages = append(s.messages, repo.Message{
			SessionID:  row.SessionID.Bytes,
			ID:         row.ID.Bytes,
			Sequence:   row.Sequence,
			Role:       role.Role,
			Content:    row.Content,
			Metadata:   row.Metadata,
			Payload:    row.Payload,
			OccurredAt: occurredAt.Time,
			CreatedAt:  row.CreatedAt.UTC(),
		})
	}
	return rows, nil //nolint:nilerr // whoever gets rows asks it for Err
}

// roleName reads a role without a string of its own for every message.
type roleName struct{ repo.Role }

func (r *roleName) ScanBytes(name []byte) error {
	for _, known := range [...]repo.Role{repo.RoleUser, repo.RoleAssistant, repo.RoleSystem, repo.RoleTool} {
		if string(name) == string(known) {
			r.Role = known
			return nil
		}
	}
	r.Role = repo.Role(name)
	return nil
}

// optionalTime reads null as the zero time.
type optionalTime struct{ time.Time }

func (t *optionalTime) ScanTimestamptz(value pgtype.Timestamptz) error {
	t.Time = time.Time{}
	if value.Valid {
		t.Time = value.Time.UTC()
	}
	return nil
}

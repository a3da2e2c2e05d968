package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

// messageScanner scans the rows of a generated query of whole messages itself, into
// messages. The generated function would scan them into a growing slice of structs, from
// which each message is then copied: that takes twice the memory, and halves the speed of
// a stream (docs/performance.md). It gets rows that are already read to their end, or to
// an error.
type messageScanner struct {
	messages []repo.Message
	// sizes says more of each message, if it has two columns for that.
	sizes []sized
}

// sized says of which range a message is, from 1 on, how many bytes are asked for of it, and whether these were left
// out.
type sized struct {
	place int64
	bytes int32
	left  bool
}

// on returns the connection for such a query.
func (s *messageScanner) on(q db.DBTX) db.DBTX { return through{DBTX: q, rows: s.scan} }

func (s *messageScanner) scan(rows pgx.Rows) (pgx.Rows, error) {
	var (
		row        db.Message
		role       roleName
		kind       repeatedText
		callID     optionalText
		content    optionalText
		occurredAt optionalTime
		counter    repeatedText
		size       sized
	)
	// All rows share one set of destinations, so that a row allocates only what its
	// message keeps. They are in the order of the table's columns; nil skips one.
	destinations := []any{
		&row.SessionID, &row.Sequence, &row.ID, &role, &kind, &callID, &content, &row.Metadata,
		&row.Payload, &occurredAt, &row.CreatedAt, &row.Follows, &row.Tokens, &counter, nil,
	}
	hasSizes := len(rows.FieldDescriptions()) > len(destinations)
	if hasSizes {
		destinations = append(destinations[:len(destinations)-1], &size.bytes, &size.place)
	}
	s.messages, s.sizes = s.messages[:0], s.sizes[:0] // drop what a failed attempt has read
	for rows.Next() {
		row.Metadata, row.Payload = nil, nil
		if rows.Scan(destinations...) != nil {
			break // Scan has closed rows, and rows.Err returns the error
		}
		if hasSizes {
			size.left = row.Metadata == nil
			s.sizes = append(s.sizes, size)
		}
		s.messages = append(s.messages, repo.Message{
			SessionID:  row.SessionID.Bytes,
			ID:         row.ID.Bytes,
			Sequence:   row.Sequence,
			Follows:    convert.Follows(row.Sequence, row.Follows),
			Role:       role.Role,
			Content:    content.text,
			Metadata:   row.Metadata,
			Payload:    row.Payload,
			Kind:       kind.text,
			CallID:     callID.text,
			Tokens:     convert.Tokens(row.Tokens),
			Counter:    counter.text,
			OccurredAt: occurredAt.Time,
			CreatedAt:  row.CreatedAt.UTC(),
		})
	}
	return rows, nil //nolint:nilerr // the caller checks rows.Err
}

// roleName scans a role without allocating a string for each message.
type roleName struct{ repo.Role }

func (r *roleName) ScanBytes(name []byte) error {
	for _, known := range [...]repo.Role{
		repo.RoleUser, repo.RoleAssistant, repo.RoleTool, repo.RoleSystem,
		repo.RoleDeveloper,
	} {
		if string(name) == string(known) {
			r.Role = known
			return nil
		}
	}
	r.Role = repo.Role(name)
	return nil
}

// optionalText scans null as an empty text.
type optionalText struct{ text string }

func (t *optionalText) ScanBytes(text []byte) error {
	t.text = string(text)
	return nil
}

// repeatedText scans null as an empty text, and allocates a text only if it is not the
// one before.
type repeatedText struct{ text string }

func (t *repeatedText) ScanBytes(text []byte) error {
	if string(text) != t.text {
		t.text = string(text)
	}
	return nil
}

// optionalTime scans null as the zero time.
type optionalTime struct{ time.Time }

func (t *optionalTime) ScanTimestamptz(value pgtype.Timestamptz) error {
	t.Time = time.Time{}
	if value.Valid {
		t.Time = value.Time.UTC()
	}
	return nil
}

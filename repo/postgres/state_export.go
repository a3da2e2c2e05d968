package postgres

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/export"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

// exporting is what an export begins with, as of one moment: the session and, in the
// buffer, its own state.
type exporting struct {
	export.StateBuffer
	view    string // see base
	session repo.Session
	// stateVersion is 0 if the session has no state.
	stateVersion int64
	history      export.History
}

// beginExport reads the state row by row into a buffer, so that no connection is held
// while it is written.
func (s *sessions) beginExport(ctx context.Context, id repo.ID) (*exporting, error) {
	var begun *exporting
	err := s.exec.read(ctx, func(q db.DBTX) error {
		if begun != nil { // of a failed attempt
			begun.Close()
		}
		begun = &exporting{view: s.view}
		_, err := queries.SessionExport(ctx, through{DBTX: q, rows: begun.scan}, convert.UUID(id))
		return err
	})
	if err == nil && begun.session.ID.IsZero() {
		err = s.exec.noted(convert.SessionNotFound(id))
	}
	if err != nil {
		if begun != nil {
			begun.Close()
		}
		return nil, err
	}
	return begun, nil
}

// scan reads the rows of SessionExport, like messageScanner, so that they are not all in memory.
func (e *exporting) scan(rows pgx.Rows) (pgx.Rows, error) {
	var (
		row       db.SessionExportRow
		key       string
		version   int64
		updatedAt time.Time
	)
	// In the order of the statement's columns; nil skips a column.
	ofSession := []any{
		&row.Session.ID, &row.Session.Namespace, &row.Session.Key, &row.Session.Owner, &row.Session.Actor,
		&row.Session.AutomationProfile, &row.Session.Metadata, &row.Session.Version, &row.Session.InputTokens,
		&row.Session.OutputTokens,
		&row.Session.CostNanos, &row.Session.BudgetNanos, &row.Session.CreatedAt, &row.Session.UpdatedAt,
		&row.Session.ImportedAt,
		&row.ChangedAt, &row.NextSequence, &row.FencedOnly, &row.Plans, &row.Base, &row.Follows, &row.ScopeVersion, nil, nil,
		nil, nil,
	}
	ofValue := make([]any, len(ofSession))
	keyColumn := len(ofSession) - 4
	copy(ofValue[keyColumn:], []any{&key, &row.StateValue, &version, &updatedAt})
	for rows.Next() {
		if rows.RawValues()[keyColumn] == nil {
			if rows.Scan(ofSession...) == nil {
				e.session = convert.Session(e.view, db.SessionGetRow{
					Session: row.Session, ChangedAt: row.ChangedAt, NextSequence: row.NextSequence, FencedOnly: row.FencedOnly,
					Plans: row.Plans,
				})
				e.stateVersion, e.history = row.ScopeVersion, export.History{Base: row.Base, Head: row.Follows}
			}
			continue // if Scan failed it has closed rows, and rows.Err returns the error
		}
		row.StateValue = nil
		if rows.Scan(ofValue...) != nil {
			break
		}
		if err := e.Add(convert.StateValue(key, row.StateValue, version, updatedAt)); err != nil {
			rows.Close()
			return nil, err
		}
	}
	return rows, nil //nolint:nilerr // the caller checks rows.Err
}

// importState stores the state of a document, in chunks, after its messages.
func importState(ctx context.Context, q db.DBTX, sessionID repo.ID, reader *export.Reader) error {
	if version := reader.StateVersion(); version > 0 {
		err := queries.StateScopeImport(ctx, q, db.StateScopeImportParams{
			SessionID: convert.UUID(sessionID),
			Version:   version,
		})
		if err != nil {
			return err
		}
	}
	for more := true; more; {
		chunk := db.StateImportParams{SessionID: convert.UUID(sessionID)}
		for bytes := 0; len(chunk.Keys) < importChunk && bytes < importChunkBytes; {
			value, err := reader.NextValue()
			if more = !errors.Is(err, io.EOF); !more {
				break
			}
			if err != nil {
				return &conn.Answer{Err: err}
			}
			chunk.Keys = append(chunk.Keys, value.Key)
			chunk.NewValues = append(chunk.NewValues, string(value.Value))
			chunk.Versions = append(chunk.Versions, value.Version)
			chunk.UpdatedAts = append(chunk.UpdatedAts, value.UpdatedAt)
			bytes += len(value.Key) + len(value.Value)
		}
		if len(chunk.Keys) == 0 {
			return nil
		}
		if err := queries.StateImport(ctx, q, chunk); err != nil {
			return err
		}
	}
	return nil
}

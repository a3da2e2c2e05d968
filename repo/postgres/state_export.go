package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/export"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/rules"
)

// exportedState is a session's own state as it was at one moment.
type exportedState struct {
	export.StateBuffer
	// version is 0 if the session has no state; createdAt and messages are those of the
	// session at the same moment, and zero then.
	version   int64
	createdAt time.Time
	messages  int64
}

// exportState reads the state in one statement, row by row, into a buffer, so that no
// connection is held while it is written.
func (s *sessions) exportState(ctx context.Context, id repo.ID) (*exportedState, error) {
	var state *exportedState
	err := s.exec.read(ctx, func(q db.DBTX) error {
		if state != nil { // of a failed attempt
			state.Close()
		}
		state = &exportedState{}
		_, err := queries.StateExport(ctx, stateScanner{q, state}, toUUID(id))
		return err
	})
	if err != nil {
		if state != nil {
			state.Close()
		}
		return nil, err
	}
	return state, nil
}

// stateScanner sits between StateExport and the connection, like messageScanner, so that
// the rows are not all in memory.
type stateScanner struct {
	db.DBTX
	state *exportedState
}

func (s stateScanner) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows, err := s.DBTX.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		var row db.StateExportRow
		if rows.Scan(&row.CreatedAt, &row.NextSequence, &row.ScopeVersion, &row.Key, &row.Value, &row.Version, &row.UpdatedAt) != nil {
			break // Scan has closed rows, and rows.Err returns the error
		}
		s.state.version, s.state.createdAt, s.state.messages = row.ScopeVersion, row.CreatedAt, row.NextSequence
		if row.Key == "" {
			continue
		}
		err := s.state.Add(stateValueOf(row.Key, row.Value, row.Version, row.UpdatedAt))
		if err != nil {
			rows.Close()
			return nil, err
		}
	}
	return rows, nil //nolint:nilerr // the caller checks rows.Err
}

// stateImport stores the state of a document, in chunks.
type stateImport struct {
	ctx       context.Context //nolint:containedctx // that of the import, for its callback
	q         db.DBTX
	sessionID repo.ID
	reader    *export.Reader
	chunk     db.StateImportParams
	bytes     int
	created   bool
	// err is the database's.
	err error
}

func (s *stateImport) add(value repo.StateValue) error {
	s.chunk.Keys = append(s.chunk.Keys, value.Key)
	s.chunk.NewValues = append(s.chunk.NewValues, string(value.Value))
	s.chunk.Versions = append(s.chunk.Versions, value.Version)
	s.chunk.UpdatedAts = append(s.chunk.UpdatedAts, value.UpdatedAt)
	s.bytes += len(value.Key) + len(value.Value)
	if len(s.chunk.Keys) == importChunk || s.bytes >= importChunkBytes {
		s.err = s.flush()
	}
	return s.err
}

// finish stores the rest, when the document was read to its end.
func (s *stateImport) finish() error {
	if s.reader.StateVersion() == 0 {
		return nil
	}
	return s.flush()
}

func (s *stateImport) flush() error {
	if !s.created {
		err := queries.StateScopeImport(s.ctx, s.q, toUUID(s.sessionID), s.reader.StateVersion())
		switch {
		case violates(err, stateScope):
			return &answer{rules.ImportedScopeTaken()}
		case err != nil:
			return err
		}
		s.created = true
	}
	s.chunk.SessionID = toUUID(s.sessionID)
	err := queries.StateImport(s.ctx, s.q, s.chunk)
	s.chunk, s.bytes = db.StateImportParams{}, 0
	return err
}

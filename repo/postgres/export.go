package postgres

import (
	"context"
	"errors"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/ctxio"
	"github.com/seed-df90f812/agentstore/internal/export"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/follow"
)

// Export reads the session and its state in one statement, then the messages up to the
// count that the session had in it. Messages never change, so all is of one moment,
// although many statements read them. Export holds no connection while it writes.
func (s *sessions) Export(ctx context.Context, id repo.ID, w io.Writer) error {
	err := s.export(ctx, id, w)
	if errors.Is(err, export.ErrIncomplete) {
		return missingMessages()
	}
	return err
}

func (s *sessions) export(ctx context.Context, id repo.ID, w io.Writer) error {
	if err := s.checkSession(ctx, id, nil); err != nil {
		return err
	}
	begun, err := s.beginExport(ctx, id)
	if err != nil {
		return err
	}
	defer begun.Close()
	session := begun.session
	linked := convert.Each(session.Plans, func(p repo.LinkedPlan) repo.ID { return p.ID })
	writer, err := export.NewWriter(ctxio.NewWriter(ctx, w), session, linked, begun.history)
	if err != nil {
		return err
	}
	if session.MessageCount > 0 {
		for message, err := range s.all(ctx, id, begun.history.Base) {
			if err != nil {
				return err
			}
			if err := writer.Write(message); err != nil {
				return err
			}
			if message.Sequence+1 == session.MessageCount {
				break
			}
		}
	}
	if begun.stateVersion > 0 {
		if err := writer.BeginState(begun.stateVersion); err != nil {
			return err
		}
		if err := begun.Replay(writer); err != nil {
			return err
		}
	}
	return writer.Close()
}

// The bounds of the messages that an import writes in one statement.
const (
	importChunk      = 1000
	importChunkBytes = 4 << 20
)

// Import reads the whole document into a buffer before it takes a connection, so that
// no transaction waits for a slow reader.
func (s *sessions) Import(ctx context.Context, r io.Reader, restore bool) (repo.Session, error) {
	if p, ok := s.exec.(*pooled); ok {
		if err := p.usable(ctx); err != nil {
			return repo.Session{}, err
		}
	}
	document, err := export.Buffer(ctx, r)
	if err != nil {
		return repo.Session{}, err
	}
	defer document.Close()
	var session repo.Session
	err = s.exec.atomically(ctx, func(q db.DBTX) error {
		reader, err := document.Reader() // each attempt begins anew
		if err != nil {
			return err
		}
		session = reader.Session()
		if err := rules.ImportInView(s.view, session); err != nil {
			return &conn.Answer{Err: err}
		}
		history := reader.History()
		if err := s.importSession(ctx, q, session, history.Base, restore); err != nil {
			return err
		}
		if session.MessageCount, err = importMessages(ctx, q, session.ID, reader); err != nil {
			return err
		}
		if err := importState(ctx, q, session.ID, reader); err != nil {
			return err
		}
		session.Plans, err = s.importLinks(ctx, q, session.ID, reader.LinkedPlans())
		return err
	})
	if err != nil {
		return repo.Session{}, err
	}
	s.learn("session", session.ID)
	s.exec.changed(grown(session.ID, follow.Look))
	return session, nil
}

// importLinks links the session to the plans of the document, which must all exist.
func (s *sessions) importLinks(ctx context.Context, q db.DBTX, sessionID repo.ID,
	ids []repo.ID,
) ([]repo.LinkedPlan, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	params := db.PlanLinkAllParams{
		SessionID: convert.UUID(sessionID), PlanIds: convert.UUIDs(ids),
		View: convert.Nullable(s.view),
	}
	if _, err := queries.PlanLinkAll(ctx, q, params); err != nil {
		return nil, err
	}
	row, err := queries.SessionGet(ctx, q, convert.UUID(sessionID))
	if err != nil {
		return nil, err
	}
	linked := convert.LinkedPlans(s.view, row.Plans)
	for i, id := range ids { // both are in ascending order
		if i == len(linked) || linked[i].ID != id {
			return nil, &conn.Answer{Err: rules.MissingPlan(i, id)}
		}
	}
	return linked, nil
}

func (s *sessions) importSession(ctx context.Context, q db.DBTX, session repo.Session, first int64,
	restore bool,
) error {
	for more := restore; more; { // what its deletion has left goes first
		var err error
		batch := db.SessionRemoveOfParams{MaxRows: limits.MaxStreamRemoval, ID: convert.UUID(session.ID)}
		if _, more, err = removedBatch(queries.SessionRemoveOf(ctx, q, batch)); err != nil {
			return err
		}
	}
	params := db.SessionImportParams{
		ID:                convert.UUID(session.ID),
		Namespace:         session.Namespace,
		Key:               convert.Nullable(session.Key),
		Owner:             convert.Nullable(session.Owner),
		Actor:             convert.Nullable(session.Actor),
		AutomationProfile: convert.Nullable(session.AutomationProfile),
		Metadata:          string(session.Metadata),
		InputTokens:       session.Usage.InputTokens,
		OutputTokens:      session.Usage.OutputTokens,
		CostNanos:         int64(session.Usage.Cost),
		BudgetNanos:       (*int64)(session.Budget),
		CreatedAt:         session.CreatedAt,
		UpdatedAt:         session.UpdatedAt,
		NextSequence:      first,
		Restores:          restore,
		Audited:           s.audited,
	}
	var kept bool
	created, err := conn.After(ctx, q,
		func(q db.DBTX) (err error) {
			kept, err = queries.ForkLeft(ctx, q, convert.UUID(session.ID))
			return err
		},
		func(q db.DBTX) (int64, error) { return queries.SessionImport(ctx, q, params) })
	switch {
	case err != nil:
		return ifDeletedMeanwhile(err)
	case created > 0 && kept: // of one that was deleted
		return &conn.Answer{Err: rules.ImportForked(session.ID)}
	case created > 0 && restore && first > 0: // a fork
		return queries.ForkYield(ctx, q, db.ForkYieldParams{
			Other:     convert.UUID(repo.NewID()),
			SessionID: convert.UUID(session.ID),
		})
	case created > 0:
		return nil
	}
	return s.whyNotImported(ctx, q, session, restore)
}

// whyNotImported returns why a session was not made.
func (s *sessions) whyNotImported(ctx context.Context, q db.DBTX, session repo.Session, restore bool) error {
	in := &sessions{base: base{exec: bound{tx: q.(pgx.Tx)}}}
	stored, err := in.taken(ctx, session.ID, session.Namespace, session.Key)
	switch {
	case err != nil:
		return err
	case len(stored) > 0:
		return &conn.Answer{Err: rules.ImportTaken(session, stored[0].ID)}
	}
	var otherThan *string
	if restore {
		otherThan = &session.Namespace
	}
	switch deleted, err := queries.SessionWasDeleted(ctx, q, db.SessionWasDeletedParams{
		ID:        convert.UUID(session.ID),
		OtherThan: otherThan,
	}); {
	case err != nil:
		return err
	case deleted:
		return &conn.Answer{Err: rules.ImportDeleted(session.ID)}
	}
	return &conn.Error{Sentinel: repo.ErrContention, Cause: errVanished}
}

// importMessages stores the reader's messages and returns the next sequence. A fork's inherited messages are stored as
// the remains of a deleted session.
func importMessages(ctx context.Context, q db.DBTX, sessionID repo.ID, reader *export.Reader) (int64, error) {
	base, other := reader.History().Base, convert.UUID(repo.NewID())
	if base > 0 {
		fork := db.ForkInsertParams{SessionID: convert.UUID(sessionID), ParentID: other, Base: base, Depth: 1}
		if err := queries.ForkInsert(ctx, q, fork); err != nil {
			return 0, err
		}
		if err := queries.ForkImport(ctx, q, db.ForkImportParams{
			SessionID: other,
			Importer:  convert.UUID(sessionID),
			Namespace: reader.Session().Namespace,
		}); err != nil {
			return 0, err
		}
	}
	i := &messageImport{
		reader: reader, session: convert.UUID(sessionID), other: other, count: base,
		branches: reader.History().Head != nil,
	}
	for more := true; more; {
		var err error
		if more, err = i.store(ctx, q); err != nil {
			return 0, err
		}
	}
	if i.branches {
		if err := queries.BranchImport(ctx, q, db.BranchImportParams{
			SessionID: i.session,
			Follows:   reader.History().Head,
		}); err != nil {
			return 0, err
		}
	}
	return i.count, nil
}

// messageImport stores messages in chunks.
type messageImport struct {
	reader *export.Reader
	// other has the messages that a fork has of others.
	session, other pgtype.UUID
	count          int64 // the next sequence
	branches       bool
}

// next reads the next chunk, and reports whether there may be more.
func (i *messageImport) next() (chunk convert.Messages, more bool, err error) {
	base := i.reader.History().Base
	for bytes := 0; len(chunk.Ids) < importChunk && bytes < importChunkBytes; {
		message, err := i.reader.Next()
		if errors.Is(err, io.EOF) {
			return chunk, false, nil
		}
		if err != nil {
			return chunk, false, &conn.Answer{Err: err}
		}
		owner := i.other
		if message.Sequence >= base {
			owner, i.count = i.session, i.count+1
		}
		if message.Follows != message.Sequence-1 {
			chunk.Follow(&message.Follows)
			i.branches = i.branches || message.Sequence >= base
		}
		imported := repo.NewMessage{
			ID: message.ID, Role: message.Role, Content: message.Content, Metadata: message.Metadata,
			Payload: message.Payload, Kind: message.Kind, CallID: message.CallID, OccurredAt: message.OccurredAt,
			Tokens: message.Tokens, Counter: message.Counter,
		}
		chunk.Add(owner, message.Sequence, message.CreatedAt, &imported)
		bytes += rules.MessageBytes(&imported)
	}
	return chunk, true, nil
}

// store stores the next chunk, and reports whether there may be more.
func (i *messageImport) store(ctx context.Context, q db.DBTX) (more bool, err error) {
	chunk, more, err := i.next()
	if err != nil || len(chunk.Ids) == 0 {
		return false, err
	}
	store := &conn.Pipeline{}
	store.Add(func(q db.DBTX) error {
		stored, err := queries.MessageInsert(ctx, q, chunk.MessageInsertParams)
		return conn.Whole(stored, len(chunk.Ids), err)
	})
	store.Add(func(q db.DBTX) error {
		counted, err := queries.MessageCount(ctx, q, db.MessageCountParams{SessionID: i.session, NextSequence: i.count})
		return conn.Whole(counted, 1, err)
	})
	if err = store.Send(ctx, q); conn.Violates(err, convert.UniqueMessageID) {
		err = &conn.Answer{Err: rules.MessageTwice()}
	}
	return more, err
}

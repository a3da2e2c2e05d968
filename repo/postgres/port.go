package postgres

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/ctxio"
	"github.com/seed-df90f812/agentstore/internal/document"
	"github.com/seed-df90f812/agentstore/repo"
)

// Export reads the session, then its messages up to the count it had then.
// Messages never change, so that this is the session as of one moment although
// it is read in many statements, and holds no connection while it writes.
func (s *sessions) Export(ctx context.Context, id repo.ID, w io.Writer) error {
	session, err := s.Get(ctx, id)
	if err != nil {
		return err
	}
	linked := make([]repo.ID, len(session.Plans))
	for i, plan := range session.Plans {
		linked[i] = plan.ID
	}
	writer, err := document.NewWriter(ctxio.NewWriter(ctx, w), session, linked)
	if err != nil {
		return err
	}
	if session.MessageCount > 0 {
		for message, err := range s.Stream(ctx, id, 0) {
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
	err = writer.Close()
	if errors.Is(err, document.ErrIncomplete) {
		return sessionNotFound(id) // it was deleted meanwhile
	}
	return err
}

// An import writes a chunk of messages at a time.
const (
	importChunk      = 1000
	importChunkBytes = 4 << 20
)

// Import reads the whole document before it takes a connection: how long the
// caller's reader takes, nobody else waits for. What it then writes from is its own.
func (s *sessions) Import(ctx context.Context, r io.Reader) (repo.Session, error) {
	kept, err := document.Keep(ctx, r)
	if err != nil {
		return repo.Session{}, err
	}
	defer kept.Close()
	var session repo.Session
	err = s.exec.atomically(ctx, func(q db.DBTX) error {
		reader, err := kept.Reader() // from the beginning, each time
		if err != nil {
			return err
		}
		session = reader.Session()
		if err := importSession(ctx, q, session); err != nil {
			return err
		}
		if session.MessageCount, err = importMessages(ctx, q, session.ID, reader); err != nil {
			return err
		}
		session.Plans, err = importLinks(ctx, q, session.ID, reader.LinkedPlans())
		return err
	})
	if err != nil {
		return repo.Session{}, err
	}
	return session, nil
}

// importLinks links the session to the plans of the document, which all have to
// be there.
func importLinks(ctx context.Context, q db.DBTX, sessionID repo.ID, ids []repo.ID) ([]repo.LinkedPlan, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	given := make([]pgtype.UUID, len(ids))
	for i, id := range ids {
		given[i] = toUUID(id)
	}
	if _, err := queries.PlanLinkAll(ctx, q, toUUID(sessionID), given); err != nil {
		return nil, err
	}
	row, err := queries.SessionGet(ctx, q, toUUID(sessionID))
	if err != nil {
		return nil, err
	}
	linked := linkedPlansOf(row.PlanIds, row.PlanStages)
	for i, id := range ids { // both ascend
		if i == len(linked) || linked[i].ID != id {
			return nil, &answer{repo.MissingPlan(i, id)}
		}
	}
	return linked, nil
}

func importSession(ctx context.Context, q db.DBTX, session repo.Session) error {
	created, err := queries.SessionImport(ctx, q, db.SessionImportParams{
		ID:                toUUID(session.ID),
		Namespace:         session.Namespace,
		Actor:             toNullable(session.Actor),
		AutomationProfile: toNullable(session.AutomationProfile),
		Metadata:          string(session.Metadata),
		InputTokens:       session.Usage.InputTokens,
		OutputTokens:      session.Usage.OutputTokens,
		CostNanos:         int64(session.Usage.Cost),
		BudgetNanos:       (*int64)(session.Budget),
		CreatedAt:         session.CreatedAt,
		UpdatedAt:         session.UpdatedAt,
	})
	if err != nil {
		return err
	}
	if created == 0 {
		return &answer{&repo.ImportError{Field: "session.id", Reason: "is taken", Err: &repo.SessionConflict{ID: session.ID}}}
	}
	return nil
}

// importMessages stores what the reader has left and returns how many it were.
func importMessages(ctx context.Context, q db.DBTX, sessionID repo.ID, reader *document.Reader) (int64, error) {
	var count int64
	for done := false; !done; {
		chunk, createdAts, bytes := newColumns(0), []time.Time(nil), 0
		for len(createdAts) < importChunk && bytes < importChunkBytes {
			message, err := reader.Next()
			if errors.Is(err, io.EOF) {
				done = true
				break
			}
			if err != nil {
				return 0, &answer{err}
			}
			chunk.add(message.ID, message.Role, message.Content, message.Metadata, message.Payload, message.OccurredAt)
			createdAts = append(createdAts, message.CreatedAt)
			bytes += len(message.Content) + len(message.Metadata) + len(message.Payload)
		}
		if len(createdAts) == 0 {
			break
		}
		written, err := queries.MessageImport(ctx, q, db.MessageImportParams{
			SessionID:     toUUID(sessionID),
			FirstSequence: count,
			Ids:           chunk.ids,
			Roles:         chunk.roles,
			Contents:      chunk.contents,
			Metadatas:     chunk.metadatas,
			Payloads:      chunk.payloads,
			OccurredAts:   chunk.occurredAts,
			CreatedAts:    createdAts,
		})
		switch {
		case violates(err, uniqueMessageID):
			return 0, &answer{&repo.ImportError{Field: "messages", Reason: "contain an id twice"}}
		case err != nil:
			return 0, err
		case written != int64(len(createdAts)):
			// The session is this transaction's own: nobody else can append.
			return 0, &answer{&repo.ImportError{Field: "messages", Reason: "were not stored in full"}}
		}
		count += written
	}
	return count, nil
}

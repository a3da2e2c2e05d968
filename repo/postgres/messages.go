package postgres

import (
	"context"
	"iter"
	"slices"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/rules"
)

func (s *sessions) Message(ctx context.Context, sessionID, id repo.ID) (repo.Message, error) {
	row, err := run2(ctx, s.exec.read, queries.MessageGet, toUUID(sessionID), toUUID(id))
	if conn.IsNoRows(err) {
		if err := s.mustExist(ctx, sessionID); err != nil {
			return repo.Message{}, err
		}
		return repo.Message{}, &repo.NotFoundError{Kind: "message", ID: id}
	}
	if err != nil {
		return repo.Message{}, err
	}
	return messageOf(row), nil
}

func (s *sessions) MessagesFrom(ctx context.Context, sessionID repo.ID, from int64, limit int) ([]repo.Message, error) {
	limit, err := rules.CheckPage("from", from, limit)
	if err != nil {
		return nil, err
	}
	return s.chunk(ctx, sessionID, from, limit, newPage(limit))
}

// newPage returns an empty page, with memory for at most firstChunk messages: most
// larger pages are not full.
func newPage(limit int) []repo.Message { return make([]repo.Message, 0, min(limit, firstChunk)) }

// list reads messages with a query that selects whole rows, into the memory of page. Only if
// there are none does it check that the session exists.
func (s *sessions) list(ctx context.Context, sessionID repo.ID, page []repo.Message, query func(*messageScanner) error) ([]repo.Message, error) {
	page, err := s.scan(ctx, page, query)
	if err == nil && len(page) == 0 {
		err = s.mustExist(ctx, sessionID)
	}
	if err != nil {
		return nil, err
	}
	return page, nil
}

func (s *sessions) scan(ctx context.Context, page []repo.Message, query func(*messageScanner) error) ([]repo.Message, error) {
	err := s.exec.read(ctx, func(q db.DBTX) error {
		scanner := &messageScanner{DBTX: q, messages: page}
		err := query(scanner)
		page = scanner.messages
		return err
	})
	return page, err
}

func (s *sessions) MessagesBefore(ctx context.Context, sessionID repo.ID, before int64, limit int) ([]repo.Message, error) {
	limit, err := rules.CheckPage("before", before, limit)
	if err != nil {
		return nil, err
	}
	return s.list(ctx, sessionID, newPage(limit), func(q *messageScanner) error {
		_, err := queries.MessageListBefore(ctx, q, db.MessageListBeforeParams{
			SessionID: toUUID(sessionID), BeforeSequence: before, MaxRows: int32(limit),
		})
		return err
	})
}

// noSequence is greater than every sequence.
const noSequence = 1<<63 - 1

func (s *sessions) LastMessages(ctx context.Context, sessionID repo.ID, limit int) ([]repo.Message, error) {
	messages, err := s.MessagesBefore(ctx, sessionID, noSequence, limit)
	slices.Reverse(messages)
	return messages, err
}

func (s *sessions) MessagesOfCall(ctx context.Context, sessionID repo.ID, callID string) ([]repo.Message, error) {
	if err := rules.CheckCallID(callID); err != nil {
		return nil, err
	}
	return s.list(ctx, sessionID, nil, func(q *messageScanner) error {
		_, err := queries.MessageListByCall(ctx, q, db.MessageListByCallParams{
			SessionID: toUUID(sessionID), CallID: callID, MaxRows: repo.MaxPageSize,
		})
		return err
	})
}

func (s *sessions) mustExist(ctx context.Context, sessionID repo.ID) error {
	exists, err := run(ctx, s.exec.read, queries.SessionExists, toUUID(sessionID))
	if err == nil && !exists {
		err = s.exec.noted(sessionNotFound(sessionID))
	}
	return err
}

// The size of a stream's chunk depends on the bytes of the one before, so that long
// messages do not fill the memory, and short ones need few round trips.
const (
	firstChunk    = 100
	maxChunk      = 5000
	maxChunkBytes = 2 << 20
)

func (s *sessions) Stream(ctx context.Context, sessionID repo.ID, from int64) iter.Seq2[repo.Message, error] {
	return func(yield func(repo.Message, error) bool) {
		if err := rules.CheckSequence("from", from); err != nil {
			yield(repo.Message{}, err)
			return
		}
		next, limit := from, firstChunk
		chunk := newPage(limit)
		for {
			var err error
			// The chunk's memory is reused: yield got copies.
			chunk, err = s.chunk(ctx, sessionID, next, limit, chunk)
			if err != nil {
				yield(repo.Message{}, err)
				return
			}
			bytes := 0
			for _, message := range chunk {
				if !yield(message, nil) {
					return
				}
				bytes += messageBytes(message)
			}
			if len(chunk) < limit {
				return
			}
			next = chunk[len(chunk)-1].Sequence + 1
			limit = nextChunk(limit, bytes)
		}
	}
}

// chunk reads the next chunk of a stream, into the memory of page.
func (s *sessions) chunk(ctx context.Context, sessionID repo.ID, from int64, limit int, page []repo.Message) ([]repo.Message, error) {
	return s.list(ctx, sessionID, page, func(q *messageScanner) error {
		_, err := queries.MessageListFrom(ctx, q, db.MessageListFromParams{
			SessionID: toUUID(sessionID), FromSequence: from, MaxRows: int32(limit),
		})
		return err
	})
}

// nextChunk returns the number of messages that would have maxChunkBytes if they are as
// large as the last ones, but at most twice the last number.
func nextChunk(last, bytes int) int {
	fitting := maxChunkBytes / max(1, bytes/last)
	return min(max(1, fitting), 2*last, maxChunk)
}

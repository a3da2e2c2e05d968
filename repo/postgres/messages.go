package postgres

import (
	"context"
	"iter"
	"slices"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

func (s *sessions) Message(ctx context.Context, sessionID, id repo.ID) (repo.Message, error) {
	if err := s.checkSession(ctx, sessionID, nil); err != nil {
		return repo.Message{}, err
	}
	row, err := run(ctx, s.exec.read, queries.MessageGet, db.MessageGetParams{
		SessionID: convert.UUID(sessionID),
		ID:        convert.UUID(id),
	})
	if conn.IsNoRows(err) {
		if err := s.mustExist(ctx, sessionID); err != nil {
			return repo.Message{}, err
		}
		return repo.Message{}, &repo.NotFoundError{Kind: "message", ID: id}
	}
	if err != nil {
		return repo.Message{}, err
	}
	message := convert.Message(row)
	message.SessionID = sessionID // also of what a fork has of others
	return message, nil
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

// query reads messages as whole rows.
type query func(db.DBTX) error

// messagesBy returns a query whose rows are scanned, and not what it returns.
func messagesBy[Argument any](
	ctx context.Context, read func(context.Context, db.DBTX, Argument) ([]db.Message, error), argument Argument,
) query {
	return func(q db.DBTX) error {
		_, err := read(ctx, q, argument)
		return err
	}
}

// transcript reads messages with a statement for sessions without branches, or else with one for any session, into the
// memory of page. Only if the first finds none does it ask whether the session exists, and has branches.
func (s *sessions) transcript(ctx context.Context, sessionID repo.ID, page []repo.Message, plain,
	path query,
) (_ []repo.Message, err error) {
	if !s.exec.branched(sessionID) {
		if page, err = s.scan(ctx, page, plain); err != nil || len(page) > 0 {
			return page, err
		}
		if branched, _, err := s.look(ctx, sessionID); err != nil || !branched {
			return page, err
		}
	}
	return s.list(ctx, sessionID, page, path)
}

// look reports whether a session has branches, or is a fork, and its first sequence.
func (s *sessions) look(ctx context.Context, sessionID repo.ID) (branched bool, base int64, err error) {
	row, err := run(ctx, s.exec.read, queries.SessionLook, convert.UUID(sessionID))
	switch {
	case err != nil:
		return false, 0, err
	case !row.Found:
		return false, 0, s.exec.noted(convert.SessionNotFound(sessionID))
	case row.Branched:
		s.exec.branch(sessionID)
	}
	return row.Branched, row.Base, nil
}

// list reads messages. Only if there are none does it check that the session exists.
func (s *sessions) list(ctx context.Context, sessionID repo.ID, page []repo.Message,
	read query,
) ([]repo.Message, error) {
	page, err := s.scan(ctx, page, read)
	if err == nil && len(page) == 0 {
		err = s.mustExist(ctx, sessionID)
	}
	if err != nil {
		return nil, err
	}
	for i := range page {
		page[i].SessionID = sessionID // also of what a fork has of others
	}
	return page, nil
}

func (s *sessions) scan(ctx context.Context, page []repo.Message, read query) ([]repo.Message, error) {
	err := s.exec.read(ctx, func(q db.DBTX) error {
		scanner := &messageScanner{messages: page}
		err := read(scanner.on(q))
		page = scanner.messages
		return err
	})
	return page, err
}

func (s *sessions) MessagesBefore(ctx context.Context, sessionID repo.ID, before int64,
	limit int,
) ([]repo.Message, error) {
	limit, err := rules.CheckPage("before", before, limit)
	if err = s.checkSession(ctx, sessionID, err); err != nil {
		return nil, err
	}
	plain := messagesBy(ctx, queries.MessageListBefore, db.MessageListBeforeParams{
		SessionID: convert.UUID(sessionID), BeforeSequence: before, MaxRows: int32(limit),
	})
	page, err := s.transcript(ctx, sessionID, newPage(limit), plain,
		messagesBy(ctx, queries.MessageListPathBefore, db.MessageListPathBeforeParams{
			SessionID: convert.UUID(sessionID), BeforeSequence: before, MaxRows: int64(limit),
		}))
	if err != nil {
		return nil, err
	}
	slices.Reverse(page)
	if err = checkLinked(page, -1); err == nil && len(page) > 0 && len(page) < limit && page[0].Follows >= 0 {
		err = missingMessages()
	}
	slices.Reverse(page)
	return page, err
}

// noSequence is greater than every sequence.
const noSequence = 1<<63 - 1

func (s *sessions) LastMessages(ctx context.Context, sessionID repo.ID, limit int) ([]repo.Message, error) {
	messages, err := s.MessagesBefore(ctx, sessionID, noSequence, limit)
	slices.Reverse(messages)
	return messages, err
}

func (s *sessions) MessagesOfCall(ctx context.Context, sessionID repo.ID, callID string) ([]repo.Message, error) {
	if err := s.checkSession(ctx, sessionID, rules.CheckCallID(callID)); err != nil {
		return nil, err
	}
	return s.list(ctx, sessionID, nil, messagesBy(ctx, queries.MessageListByCall, db.MessageListByCallParams{
		SessionID: convert.UUID(sessionID), CallID: callID, MaxRows: repo.MaxPageSize,
	}))
}

func (s *sessions) mustExist(ctx context.Context, sessionID repo.ID) error {
	exists, err := run(ctx, s.exec.read, queries.SessionExists, convert.UUID(sessionID))
	if err == nil && !exists {
		err = s.exec.noted(convert.SessionNotFound(sessionID))
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

func (s *sessions) Messages(ctx context.Context, sessionID repo.ID, from int64) iter.Seq2[repo.Message, error] {
	last := int64(-1) // what was yielded before
	return streamed(from, func(next int64, limit int, chunk []repo.Message) ([]repo.Message, error) {
		chunk, err := s.chunk(ctx, sessionID, next, limit, chunk)
		if err == nil && next > from {
			err = s.checkBranch(ctx, sessionID, last, chunk)
		}
		if err == nil && len(chunk) > 0 {
			last = chunk[len(chunk)-1].Sequence
		}
		return chunk, err
	})
}

// checkBranch returns an error if a chunk is of another branch than the one before it, which ended with last: the
// session was rewound between the two.
func (s *sessions) checkBranch(ctx context.Context, sessionID repo.ID, last int64, chunk []repo.Message) error {
	follows := int64(-1)
	if len(chunk) > 0 {
		follows = chunk[0].Follows
	} else {
		there, err := s.chunk(ctx, sessionID, last, 1, nil)
		if err != nil {
			return err
		}
		if len(there) > 0 {
			follows = there[0].Sequence
		}
	}
	if follows != last {
		return &repo.SequenceConflictError{Kind: "head", ID: sessionID, Expected: last, Next: follows}
	}
	return nil
}

// all yields the messages of all branches, of which those from base on are the session's own.
func (s *sessions) all(ctx context.Context, sessionID repo.ID, base int64) iter.Seq2[repo.Message, error] {
	return func(yield func(repo.Message, error) bool) {
		for message, err := range s.inherited(ctx, sessionID, base, 0) {
			if !yield(message, err) || err != nil {
				return
			}
		}
		own := func(next int64, limit int, chunk []repo.Message) ([]repo.Message, error) {
			return s.own(ctx, sessionID, next, limit, chunk)
		}
		streamed(base, own)(yield)
	}
}

// inherited yields the messages that a fork has of others, from a sequence on.
func (s *sessions) inherited(ctx context.Context, sessionID repo.ID, base, from int64) iter.Seq2[repo.Message, error] {
	if from >= base {
		return func(func(repo.Message, error) bool) {}
	}
	at := base - 1
	return streamed(from, func(next int64, limit int, chunk []repo.Message) ([]repo.Message, error) {
		return s.list(ctx, sessionID, chunk, messagesBy(ctx, queries.MessageListPath, db.MessageListPathParams{
			SessionID: convert.UUID(sessionID), At: &at, FromSequence: next, MaxRows: int64(limit),
		}))
	})
}

// streamed yields messages that read reads in chunks, of as many messages as limit says, into the memory of the chunk
// before.
func streamed(from int64, read func(next int64, limit int, chunk []repo.Message) ([]repo.Message,
	error),
) iter.Seq2[repo.Message, error] {
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
			chunk, err = read(next, limit, chunk)
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

// chunk reads the next chunk of a transcript, into the memory of page.
func (s *sessions) chunk(ctx context.Context, sessionID repo.ID, from int64, limit int,
	page []repo.Message,
) ([]repo.Message, error) {
	if err := s.checkSession(ctx, sessionID, nil); err != nil {
		return nil, err
	}
	page, err := s.transcript(ctx, sessionID, page, messagesBy(ctx, queries.MessageListFrom, db.MessageListFromParams{
		SessionID: convert.UUID(sessionID), FromSequence: from, MaxRows: int32(limit),
	}), messagesBy(ctx, queries.MessageListPath, db.MessageListPathParams{
		SessionID: convert.UUID(sessionID), FromSequence: from, MaxRows: int64(limit),
	}))
	if err == nil {
		err = checkLinked(page, -1)
	}
	if err == nil && len(page) > 0 && page[0].Follows >= from {
		err = missingMessages()
	}
	if err != nil {
		return nil, err
	}
	return page, nil
}

// own reads messages of all branches, without a fork's inherited ones.
func (s *sessions) own(ctx context.Context, sessionID repo.ID, from int64, limit int,
	page []repo.Message,
) ([]repo.Message, error) {
	page, err := s.list(ctx, sessionID, page, messagesBy(ctx, queries.MessageListOwn, db.MessageListOwnParams{
		SessionID: convert.UUID(sessionID), FromSequence: from, MaxRows: int32(limit),
	}))
	for i := range page {
		if page[i].Sequence != from+int64(i) {
			return nil, missingMessages()
		}
	}
	return page, err
}

// nextChunk returns the number of messages that would have maxChunkBytes if they are as
// large as the last ones, but at most twice the last number.
func nextChunk(last, bytes int) int {
	fitting := maxChunkBytes / max(1, bytes/last)
	return min(max(1, fitting), 2*last, maxChunk)
}

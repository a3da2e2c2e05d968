package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/follow"
)

// The bounds of one read for followers. They are small, because a slow follower keeps
// what was read for it, followers that catch up take turns with as much as one position
// gets, and up-to-date ones wait for the read before.
const (
	maxPositions    = 256
	maxNewsRows     = 1024
	maxNewsBytes    = 1 << 20
	maxSessionRows  = 512
	maxSessionBytes = 512 << 10
)

func (s *sessions) Follow(ctx context.Context, sessionID repo.ID, from int64) iter.Seq2[repo.Message, error] {
	return func(yield func(repo.Message, error) bool) {
		p, ok := s.exec.(*pooled)
		if !ok {
			yield(repo.Message{}, rules.CannotFollow())
			return
		}
		if err := s.checkSession(ctx, sessionID, rules.CheckSequence("from", from)); err != nil {
			yield(repo.Message{}, err)
			return
		}
		if err := p.enter(ctx); err != nil {
			yield(repo.Message{}, err)
			return
		}
		// Not inside of the gate: Close ends followers, and does not wait for them.
		p.gate.leave()
		defer p.live.listener.Use()() //nolint:contextcheck // its goroutine is no follower's
		for message, err := range s.follow(ctx, p, sessionID, from) {
			if err != nil {
				yield(repo.Message{}, p.noted(followError(ctx, sessionID, err)))
				return
			}
			message.Metadata, message.Payload = bytes.Clone(message.Metadata), bytes.Clone(message.Payload)
			if !yield(message, nil) {
				return
			}
		}
	}
}

// follow follows the session's own messages, after a fork's inherited ones: a fork is found by the gap.
func (s *sessions) follow(ctx context.Context, p *pooled, sessionID repo.ID, from int64) iter.Seq2[repo.Message,
	error] {
	return func(yield func(repo.Message, error) bool) {
		for began := false; ; began = true {
			var gap error
			for message, err := range p.live.messages.Follow(ctx, p.gate.closing, sessionID, from) {
				if gap = err; err != nil && !began && isGap(err) {
					break
				}
				began = true
				if !yield(message, err) || err != nil {
					return
				}
			}
			if gap == nil {
				return
			}
			_, base, err := s.look(ctx, sessionID)
			if err != nil || base <= from {
				yield(repo.Message{}, cmp.Or(err, gap))
				return
			}
			for message, err := range s.inherited(ctx, sessionID, base, from) {
				if !yield(message, err) || err != nil {
					return
				}
			}
			from = base
		}
	}
}

func followError(ctx context.Context, sessionID repo.ID, err error) error {
	switch {
	case errors.Is(err, follow.ErrMissing):
		return rules.Deleted(sessionID, false)
	case errors.Is(err, follow.ErrGone):
		return rules.Deleted(sessionID, true)
	case errors.Is(err, follow.ErrClosed):
		return repo.ErrClosed
	}
	return conn.Translate(ctx, err, conn.Reading)
}

// tailBytes is messageBytes for what is kept for followers: of what came before a redaction nothing is.
func tailBytes(m repo.Message) int {
	if rules.IsRedaction(m) {
		return 1 << 20 // more than a tail has
	}
	return messageBytes(m)
}

// messageBytes is the memory that a message takes, more or less.
func messageBytes(m repo.Message) int {
	return len(m.Content) + len(m.Metadata) + len(m.Payload) + len(m.Kind) + len(m.CallID)
}

// readMessages implements follow.Config.Read.
func (l *live) readMessages(ctx context.Context, positions []follow.Position[repo.ID]) ([]follow.Found[repo.Message],
	error,
) {
	params := db.MessageListNewsParams{}
	params.SessionIds, params.FromSequences, params.MaxRows, params.MaxBytes = newsParams(positions)
	scanner := &newsScanner{positions: positions}
	err := l.within(ctx, readTimeout, readAttempts, func(ctx context.Context, q db.DBTX) error {
		_, err := queries.MessageListNews(ctx, through{DBTX: q, rows: scanner.scan}, params)
		return err
	})
	for i := range scanner.found {
		endAtGap(&scanner.found[i], positions[i].From)
	}
	return scanner.found, err
}

// endAtGap ends the followers of a session where a message is missing that there must be.
// Otherwise they would leave it out, or look for it again and again.
func endAtGap(found *follow.Found[repo.Message], from int64) {
	if found.Cut || found.Missing {
		return
	}
	for i, message := range found.Items {
		if message.Sequence != from+int64(i) {
			found.Items, found.End = found.Items[:i], missingMessages()
			return
		}
	}
	if len(found.Items) == 0 && from < found.Next {
		found.End = missingMessages()
	}
}

// newsParams returns positions as the arrays that a statement unnests, and how many rows it may return for each, and
// bytes for all. The statement reads all these rows to choose among them. So it gets, for one position, as many as
// should fit.
func newsParams(positions []follow.Position[repo.ID]) (ids []pgtype.UUID, froms []int64, rows int32, bytes int64) {
	for _, p := range positions {
		ids, froms = append(ids, convert.UUID(p.Key)), append(froms, p.From)
	}
	most := min(maxNewsRows/len(positions), maxSessionRows)
	if size := positions[0].Size; len(positions) == 1 && size > 0 {
		most = min(most, 1+maxSessionBytes/size)
	}
	return ids, froms, int32(most), int64(min(maxNewsBytes, maxSessionBytes*len(positions)))
}

// movedParams returns sessions as the arrays that a statement unnests.
func movedParams(known []newest) (params db.SessionListMovedParams) {
	for _, k := range known {
		params.Ids, params.NextSequences = append(params.Ids, convert.UUID(k.Key)), append(params.NextSequences, k.Next)
	}
	return params
}

// moved implements follow.Config.Newest.
func (l *live) moved(ctx context.Context, known []newest) (moved []newest, err error) {
	err = l.within(ctx, pollTimeout, 1, func(ctx context.Context, q db.DBTX) error {
		rows, err := queries.SessionListMoved(ctx, q, movedParams(known))
		moved = convert.Each(rows, func(r db.SessionListMovedRow) newest {
			return newest{Key: r.ID.Bytes, Next: r.NextSequence}
		})
		return err
	})
	return moved, err
}

// newsScanner is like messageScanner, for the rows of MessageListNews.
type newsScanner struct {
	positions []follow.Position[repo.ID]
	found     []follow.Found[repo.Message]
}

func (s *newsScanner) scan(rows pgx.Rows) (pgx.Rows, error) {
	var (
		place      int64
		next       *int64
		row        db.Message
		role       roleName
		occurredAt optionalTime
	)
	// In the order of the statement's columns; nil skips a column.
	ofMessage := []any{
		&place, &next, &row.Sequence, &row.ID, &role, &row.Content, &row.Metadata, &row.Payload, &row.Kind, &row.CallID,
		&occurredAt, &row.CreatedAt, &row.Follows, &row.Tokens, &row.Counter,
	}
	ofSession := []any{&place, &next, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil}
	const sequence = 2
	s.found = make([]follow.Found[repo.Message], len(s.positions)) // without what a failed attempt has left
	for i := range s.found {
		s.found[i].Cut = true
	}
	for rows.Next() {
		destinations := ofMessage
		if rows.RawValues()[sequence] == nil {
			destinations = ofSession
		}
		row.Metadata, row.Payload = nil, nil
		if rows.Scan(destinations...) != nil {
			break // Scan has closed rows, and rows.Err returns the error
		}
		found := &s.found[place-1]
		found.Cut, found.Missing = false, next == nil
		if next != nil {
			found.Next = *next
		}
		if rows.RawValues()[sequence] != nil {
			row.SessionID = convert.UUID(s.positions[place-1].Key)
			message := convert.Message(row)
			message.Role, message.OccurredAt = role.Role, occurredAt.Time
			found.Items = append(found.Items, message)
		}
	}
	return rows, nil //nolint:nilerr // the caller checks rows.Err
}

package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
)

// smallStateKeys is how many keys a plain read returns. Each value may have its share of
// what a read may return.
const smallStateKeys = 1000

// maxPlainMessages bounds the messages that a plain read is asked for. Of more, the share of
// each is so small that usual ones exceed it, and all would be read twice.
const maxPlainMessages = 1000

// isPlainRead reports whether the statements of a plain read can express a read.
func isPlainRead(read repo.ReadSessions) bool {
	return len(read.IDs) == 1 && max(read.First, read.Last) <= maxPlainMessages && read.Since.IsZero() && read.Tokens == 0 &&
		!read.WithoutContent && !read.WithoutPayload
}

// readPlain reads one session as most reads do: with simple statements in one pipeline, which
// is faster than the one statement for everything. It is not whole if anything is too large
// or too much for that. (In a transaction at read committed each statement would see a
// snapshot of its own, so it is for the pool alone.)
func (s *snapshotScanner) readPlain(ctx context.Context, p *pooled) (whole bool, err error) {
	var messages []repo.Message
	steps := &conn.Pipeline{}
	steps.Add(func(q db.DBTX) error {
		row, err := queries.SessionGet(ctx, q, toUUID(s.read.IDs[0]))
		if conn.IsNoRows(err) {
			return nil
		}
		if err == nil {
			s.addSession(1, sessionOf(s.view, row), s.read.From)
			messages = s.entry(1).Messages
		}
		return err
	})
	if count := max(s.read.First, s.read.Last); count > 0 {
		params := db.SessionReadLastParams{
			SessionID: toUUID(s.read.IDs[0]), FromSequence: s.read.From, MaxMessages: int32(count), SmallBytes: limits.MaxReadBytes / int64(count),
		}
		steps.Add(func(q db.DBTX) (err error) {
			scanner := &messageScanner{DBTX: q, messages: messages}
			if s.read.Last > 0 {
				_, err = queries.SessionReadLast(ctx, scanner, params)
			} else {
				_, err = queries.SessionReadFirst(ctx, scanner, db.SessionReadFirstParams(params))
			}
			messages = scanner.messages
			return err
		})
	}
	keys := 0
	if s.read.State || len(s.read.Scopes) > 0 {
		params := db.SessionReadStateParams{
			Namespace: cmp.Or(s.view, repo.DefaultNamespace), Scopes: s.read.Scopes,
			MaxRows: int32(smallStateKeys + 1 + len(s.read.Scopes)), SmallBytes: limits.MaxStateBytes / smallStateKeys,
		}
		if s.read.State {
			params.StateIds = toUUIDs(s.read.IDs)
		}
		steps.Add(func(q db.DBTX) error {
			rows, err := queries.SessionReadState(ctx, q, params)
			keys = len(rows)
			for i := range rows {
				row := &rows[i]
				key := &row.Key
				if row.Key == "" {
					key = nil
				}
				s.addState(row.SessionID, row.Name, row.ScopeVersion, key, &row.Version, row.Value, row.UpdatedAt)
			}
			return err
		})
	}
	err = p.read(ctx, func(q db.DBTX) error {
		s.drop() // what a failed attempt has left
		messages = nil
		return steps.SendTo(ctx, conn.OneSnapshot(q.(conn.Alone)))
	})
	if err != nil {
		return false, err
	}
	if entry := s.snapshot.Sessions[0]; entry != nil {
		if s.read.Last > 0 {
			slices.Reverse(messages)
		}
		entry.Messages = messages
		if int64(len(messages)) < s.asked[0] {
			return false, nil
		}
	}
	return !s.partial && keys < smallStateKeys, nil
}

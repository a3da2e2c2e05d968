package share

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"

	"github.com/seed-df90f812/agentstore/repo"
)

// Show says what to read of a link.
type Show struct {
	From  int64 // the sequence to begin at
	Limit int   // of messages, at most repo.MaxPageSize; zero: repo.DefaultPageSize
	// All adds what a reader is usually not to see: messages of the roles system and developer, reasoning
	// (repo.KindReasoning), and the messages' metadata and payloads.
	All bool
}

// Shared is a page of what a link shows.
type Shared struct {
	Link
	Messages []repo.Message // ascending, of the transcript; messages of the fork's parents have its id, too
	Next     int64          // the From of the next page, if More
	More     bool
}

// Open returns what the link of a token shows, by one read. A token that is malformed or unknown, and one whose link
// has expired, was revoked or was deleted or erased with its owner, all have the same error: NotFoundError of the kind
// "link". Other errors: InvalidError for show; errors of Sessions.Read.
func (l *Links) Open(ctx context.Context, token string, show Show) (shared Shared, err error) {
	switch {
	case show.From < 0:
		return shared, &repo.InvalidError{Field: "show.from", Reason: "is negative"}
	case show.Limit < 0 || show.Limit > repo.MaxPageSize:
		return shared, &repo.InvalidError{Field: "show.limit", Reason: "is negative, or more than 1,000"}
	case len(token) != encoding.EncodedLen(idBytes+secretBytes): // the decoder skips ends of lines
		return shared, errNone()
	}
	raw, err := encoding.DecodeString(token)
	if err != nil || len(raw) != idBytes+secretBytes {
		return shared, errNone()
	}
	now, err := l.clock.Now(ctx)
	if err != nil {
		return shared, err
	}
	id, hash := repo.ID(raw[:idBytes]), sha256.Sum256(raw[idBytes:])
	read := repo.ReadSessions{IDs: []repo.ID{id}, From: show.From, State: true}
	read.First, read.WithoutPayload = cmp.Or(show.Limit, repo.DefaultPageSize), !show.All
	found, err := l.store.Sessions().Read(ctx, read)
	if err != nil {
		return shared, err
	}
	fork := found.Sessions[0]
	if fork == nil {
		return shared, errNone()
	}
	r, is := recordOf(fork.Session, fork.State)
	if !is || subtle.ConstantTimeCompare(r.Hash, hash[:]) != 1 || !now.Before(r.Until) {
		return shared, errNone()
	}
	return show.of(r.Link, fork.Messages), nil
}

// of returns the page that messages make. What was appended to the fork is not shown.
func (s Show) of(link Link, messages []repo.Message) Shared {
	shared := Shared{Link: link}
	for _, m := range messages {
		if m.Sequence > link.At {
			break
		}
		shared.Next, shared.More = m.Sequence+1, m.Sequence < link.At
		inner := m.Role == repo.RoleSystem || m.Role == repo.RoleDeveloper || m.Kind == repo.KindReasoning
		if m.SessionID = link.ID; !s.All {
			m.Metadata, m.Payload = json.RawMessage("{}"), nil
		}
		if s.All || !inner {
			shared.Messages = append(shared.Messages, m)
		}
	}
	return shared
}

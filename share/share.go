// Package share makes links by which a holder reads a conversation up to one of its messages, and nothing later. A link
// is a fork of the session (Sessions.Fork), which has no copies of the messages, with a token of which only the hash is
// stored. docs/directory.md says what ends it.
package share

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/seed-df90f812/agentstore/clock"
	"github.com/seed-df90f812/agentstore/repo"
)

// MinLife and MaxLife bound the life of a link.
const (
	MinLife = time.Second
	MaxLife = 366 * 24 * time.Hour
)

// Links makes and opens links of a store. A view's links are in its namespace. It is safe for concurrent use.
type Links struct {
	store repo.Store
	clock *clock.Clock
}

// New returns the links of a store. It reads and writes nothing. Errors: InvalidError.
func New(store repo.Store) (*Links, error) {
	if store == nil {
		return nil, &repo.InvalidError{Field: "store", Reason: "is nil"}
	}
	return &Links{store, clock.New(store, 0)}, nil
}

// Link is what is known of a link. Nothing in it opens it.
type Link struct {
	ID      repo.ID   `json:"-"`       // of the fork
	Session repo.ID   `json:"session"` // whose messages it shows
	At      int64     `json:"at"`      // the sequence of the last message that it shows
	Until   time.Time `json:"until"`   // when it expires, by the database's clock
}

// record is what is stored under recordKey in the fork's own state.
type record struct {
	Link
	Hash []byte `json:"hash"` // of the secret
}

const recordKey = "share"

// A token has the fork's id and a random secret.
const idBytes, secretBytes = 16, 32

var encoding = base64.RawURLEncoding.Strict()

// actorPrefix begins the actor of a fork that is a link. What follows makes an index find an owner's links among those
// of few others. It is too short to confirm a name, since the audit trail keeps it when the owner is erased.
const actorPrefix = "agentstore/share/"

func actorOf(owner string) string {
	sum := sha256.Sum256([]byte(owner))
	return actorPrefix + hex.EncodeToString(sum[:1])
}

// IsLink reports whether a session is the fork of a link, rather than a conversation.
func IsLink(session repo.Session) bool { return strings.HasPrefix(session.Actor, actorPrefix) }

// errNone is the answer to every token that opens nothing.
func errNone() error { return &repo.NotFoundError{Kind: "link", Name: "of this token"} }

// Create makes a link that shows the transcript of a session up to the message with the sequence at, for life, from
// MinLife to MaxLife. The token is for its URL, and is told nowhere else. The caller checks who may share the session.
// After ErrUnknownOutcome there may be a link whose token is lost: see List.
//
// Errors: InvalidError, also for a session without an owner, whose erasure could not end the link; NotFoundError for
// the session, and for the message; errors of Sessions.Fork.
func (l *Links) Create(ctx context.Context, session repo.ID, at int64, life time.Duration) (
	link Link, token string, err error,
) {
	if life < MinLife || life > MaxLife {
		return link, "", &repo.InvalidError{Field: "life", Reason: "is not from a second to 366 days"}
	}
	from, err := l.store.Sessions().Get(ctx, session)
	switch {
	case err != nil:
		return link, "", err
	case IsLink(from): // a link of it would not end with it
		return link, "", &repo.NotFoundError{Kind: "session", ID: session}
	case from.Owner == "":
		return link, "", &repo.InvalidError{Field: "session", Reason: "has no owner"}
	}
	now, err := l.clock.Now(ctx)
	if err != nil {
		return link, "", err
	}
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // does not fail
	hash := sha256.Sum256(secret)
	link = Link{repo.NewID(), session, at, now.Add(life).UTC().Truncate(time.Microsecond)}
	text, _ := json.Marshal(record{link, hash[:]}) //nolint:errchkjson // texts, numbers, and a time near the database's
	fork := repo.NewSession{ID: link.ID, Namespace: from.Namespace, Owner: from.Owner, FencedOnly: true}
	fork.Actor = actorOf(from.Owner)
	err = l.store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		_, err := tx.Sessions().Fork(ctx, session, at, fork)
		if err == nil {
			change := repo.StateChange{Scope: repo.Scope{SessionID: link.ID}, Key: recordKey, Value: text}
			_, err = tx.State().Change(ctx, []repo.StateChange{change})
		}
		return err
	})
	if err != nil {
		return Link{}, "", err
	}
	return link, encoding.EncodeToString(append(link.ID[:], secret...)), nil
}

// recordOf returns what is stored of a link.
func recordOf(session repo.Session, state repo.ScopeState) (r record, is bool) {
	is = IsLink(session) && json.Unmarshal(state.Value(recordKey), &r) == nil && len(r.Hash) == sha256.Size
	r.ID = session.ID
	return r, is
}

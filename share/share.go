// Package share makes links by which whoever has one reads a conversation up to one of its messages, and nothing later.
// A link is a fork of the session (Sessions.Fork), which has no copies of the messages, with a token of which only the
// hash is stored. docs/directory.md says what ends it.
package share

import (
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

// Links makes and opens links of a store. Those of a view are in its namespace. It is safe for concurrent use.
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

// actorPrefix begins the actor of a fork that is a link. What follows tells owners apart, whose links are listed by it.
const actorPrefix = "agentstore/share/"

func actorOf(owner string) string {
	sum := sha256.Sum256([]byte(owner))
	return actorPrefix + hex.EncodeToString(sum[:])
}

// IsLink reports whether a session is the fork of a link, rather than a conversation.
func IsLink(session repo.Session) bool { return strings.HasPrefix(session.Actor, actorPrefix) }

// errNone is the answer to every token that opens nothing.
func errNone() error { return &repo.NotFoundError{Kind: "link", Name: "of this token"} }

// recordOf returns what is stored of a link.
func recordOf(session repo.Session, state repo.ScopeState) (r record, is bool) {
	is = IsLink(session) && json.Unmarshal(state.Value(recordKey), &r) == nil && len(r.Hash) == sha256.Size
	r.ID = session.ID
	return r, is
}

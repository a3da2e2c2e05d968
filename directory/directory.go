// Package directory is for a sidebar: it keeps the title, star, archive mark, tags and read mark of an owner's
// conversations, and lists, selects and counts them. docs/directory.md has the cases.
//
// What is kept of a conversation is in a shared scope of state of its own, which a page reads with the others' in one
// round trip; the owner has one with the indexes and counters. Both change together, also within a turn.
package directory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/share"
)

// The limits. Sizes are in bytes.
const (
	MaxTitleBytes = 400
	MaxTagBytes   = 100
	MaxTags       = 20   // of a conversation
	MaxStarred    = 1000 // of an owner, with deleted ones, until Sweep
)

// attempts bounds how often a change is tried that others have overtaken.
const attempts = 10

// Directory has the conversations of one owner, of the namespace of its store. It is safe for concurrent use, and in a
// transaction as its store is.
type Directory struct {
	store repo.Repositories
	owner string
	scope string // the name of the owner's scope
}

// New returns the directory of an owner. It reads and writes nothing. store may be a transaction's, or a view's, whose
// conversations have their entries there, and not in the directory of the whole store. Errors: InvalidError.
func New(store repo.Repositories, owner string) (*Directory, error) {
	switch {
	case store == nil:
		return nil, &repo.InvalidError{Field: "store", Reason: "is nil"}
	case owner == "":
		return nil, &repo.InvalidError{Field: "owner", Reason: "is empty"}
	}
	sum := sha256.Sum256([]byte(owner)) // a name of any length fits
	return &Directory{store, owner, repo.JoinKey("directory", hex.EncodeToString(sum[:]))}, nil
}

// Entry is what is kept of a conversation.
type Entry struct {
	Title    string   `json:"title,omitempty"`
	Starred  bool     `json:"starred,omitempty"`
	Archived bool     `json:"archived,omitempty"`
	Tags     []string `json:"tags,omitempty"` // distinct, by their bytes
	// Read is the sequence of the first message that is not read.
	Read int64 `json:"-"`
}

// Conversation is a session of the owner's with its entry.
type Conversation struct {
	Session repo.Session
	Entry
	// Unread is how many messages there are from Entry.Read on, on all branches, of all roles and kinds: also those of the
	// user, and those that tell of a redaction.
	Unread int64
	// Moved: it was active while a listing was walked, has moved to the front, and takes the place of what was shown.
	Moved bool
}

// The keys of a conversation's scope.
const keyEntry, keyRead = "entry", "read"

// stored is what is known of a conversation before it is changed.
type stored struct {
	session *repo.Session // nil: it does not exist
	Entry
	version, readVersion int64 // 0: there is no entry, or no read mark
}

// scopeOf returns the name of a conversation's scope. It has the owner's, so that it is the owner's alone.
func (d *Directory) scopeOf(id repo.ID) string { return d.scope + "/" + id.String() }

// look reads a conversation. Errors: NotFoundError if the session is another owner's, or a share link.
func (d *Directory) look(ctx context.Context, id repo.ID) (s stored, err error) {
	read, err := d.store.Sessions().Read(ctx, repo.ReadSessions{IDs: []repo.ID{id}, Scopes: []string{d.scopeOf(id)}})
	if err != nil {
		return s, err
	}
	if found := read.Sessions[0]; found != nil {
		if s.session = &found.Session; s.session.Owner != d.owner || share.IsLink(*s.session) {
			return s, &repo.NotFoundError{Kind: "session", ID: id}
		}
	}
	return s, s.decode(read.Scopes[0])
}

func (s *stored) decode(scope repo.ScopeState) error {
	for _, value := range scope.Values {
		var err error
		switch value.Key {
		case keyEntry:
			s.version, err = value.Version, json.Unmarshal(value.Value, &s.Entry)
		case keyRead:
			s.readVersion, err = value.Version, json.Unmarshal(value.Value, &s.Read)
		}
		if err != nil {
			return &repo.RefusedError{Kind: "state", Scope: scope.Scope, Name: value.Key, Reason: "is no directory's"}
		}
	}
	return nil
}

// fill adds their entries to sessions, in one round trip.
func (d *Directory) fill(ctx context.Context, sessions []repo.Session) ([]Conversation, error) {
	if len(sessions) == 0 {
		return nil, nil
	}
	scopes := make([]repo.Scope, len(sessions))
	for i, session := range sessions {
		scopes[i].Name = d.scopeOf(session.ID)
	}
	states, err := d.store.State().Read(ctx, scopes...)
	if err != nil {
		return nil, err
	}
	all := make([]Conversation, len(sessions))
	for i, session := range sessions {
		var s stored
		if err := s.decode(states[i]); err != nil {
			return nil, err
		}
		all[i] = Conversation{Session: session, Entry: s.Entry, Unread: max(session.MessageCount-s.Read, 0)}
	}
	return all, nil
}

// overtaken reports whether a change was prevented by another one of the same entry.
func (d *Directory) overtaken(err error, id repo.ID) bool {
	conflict, is := errors.AsType[*repo.VersionConflictError](err)
	return is && conflict.Scope.Name == d.scopeOf(id) && slices.Contains([]string{keyEntry, keyRead}, conflict.Name)
}

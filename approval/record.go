package approval

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// A request is in three places, which one change of state writes together:
//
//   - the session's own state, under keyOf, has the request: it is kept, erased and exported with the session.
//   - a shared scope of the namespace (ledger) has its seal, for as long as it is open, or approved and not used.
//     Without the seal nothing is decided or used: a copy of the session has none, and whoever may write the session's
//     state cannot make one.
//   - the shared scope of each decider (ScopeOf) has an entry for as long as the request waits for them.
//
// The keys of the shared scopes begin with the expiry, so that lists are in its order, and a sweep reads what has
// expired alone.

// asked is what never changes of a request.
type asked struct {
	Kind      string    `json:"kind"`
	Subject   string    `json:"subject,omitempty"`
	Arguments string    `json:"arguments_sha256"`
	Text      string    `json:"text,omitempty"`
	By        string    `json:"by"`
	Deciders  []string  `json:"deciders"`
	Quorum    int       `json:"quorum"`
	Until     time.Time `json:"until"`
	Self      bool      `json:"self_approval,omitempty"`
	PlanID    repo.ID   `json:"plan_id,omitzero"`
}

// document is the value in the session's state.
type document struct {
	Asked  json.RawMessage `json:"asked"`
	Status Status          `json:"status"`
	Votes  []Vote          `json:"votes,omitempty"`
}

// seal is the value in the ledger.
type seal struct {
	Sum string   `json:"sum"` // of the document
	For []string `json:"for"` // the deciders, whose entries a sweep removes if the session is gone
}

// record is a request with what a change of it needs.
type record struct {
	Request
	asked   json.RawMessage
	version int64
	seal    int64 // the version of the seal; zero: there is none that fits
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func keyOf(id string) string { return "approval/" + id }

// shards are how many ledgers a namespace has, so that those who ask seldom wait for each other. It never changes.
const shards = 16

func ledger(session repo.ID) repo.Scope { return shard(int(session[len(session)-1]) % shards) }

func shard(n int) repo.Scope {
	return repo.Scope{Name: repo.JoinKey("approval", "ledger", string("0123456789abcdef"[n]))}
}

const timeLayout = "2006-01-02T15:04:05.000000Z"

// entryOf is the key in shared scopes.
func entryOf(until time.Time, ref Ref) string {
	return until.UTC().Format(timeLayout) + "/" + ref.SessionID.String() + "/" + ref.ID
}

// parseEntry is the inverse of entryOf.
func parseEntry(key string) (until string, ref Ref, ok bool) {
	parts := strings.SplitN(key, "/", 3)
	if len(parts) != 3 {
		return "", ref, false
	}
	id, err := repo.ParseID(parts[1])
	return parts[0], Ref{id, parts[2]}, err == nil
}

// encoded returns the document of a request, given what was asked.
func encoded(asked json.RawMessage, status Status, votes []Vote) json.RawMessage {
	text, _ := json.Marshal(document{asked, status, votes}) //nolint:errchkjson // texts, checked before
	return text
}

func sealed(doc json.RawMessage, deciders []string) json.RawMessage {
	text, _ := json.Marshal(seal{hash(doc), deciders}) //nolint:errchkjson // texts
	return text
}

// decode reads the stored value of a request.
func decode(ref Ref, stored repo.StateValue) (*record, error) {
	var doc document
	var a asked
	if json.Unmarshal(stored.Value, &doc) != nil || json.Unmarshal(doc.Asked, &a) != nil {
		return nil, &ForeignError{ref}
	}
	return &record{Request{
		ref, a.Kind, a.Subject, a.Arguments, a.Text, a.By, a.Deciders, a.Quorum, a.Until, a.Self, a.PlanID,
		doc.Votes, doc.Status, stored.UpdatedAt,
	}, doc.Asked, stored.Version, 0}, nil
}

// read returns a request without looking at its seal.
func read(ctx context.Context, state repo.State, ref Ref) (*record, repo.StateValue, error) {
	if ref.SessionID.IsZero() || ref.ID == "" {
		return nil, repo.StateValue{}, &repo.InvalidError{Field: "ref", Reason: "names no request"}
	}
	stored, err := state.Get(ctx, repo.Scope{SessionID: ref.SessionID}, keyOf(ref.ID))
	if errors.Is(err, repo.ErrNotFound) {
		err = notFound(ref)
	}
	if err != nil {
		return nil, stored, err
	}
	r, err := decode(ref, stored)
	return r, stored, err
}

// load returns a request. One that is open or approved has a seal that fits: otherwise the error is a ForeignError.
func load(ctx context.Context, state repo.State, ref Ref) (*record, error) {
	last := int64(-1)
	for {
		r, stored, err := read(ctx, state, ref)
		if err != nil || r.Status != Open && r.Status != Approved {
			return r, err
		}
		value, err := state.Get(ctx, ledger(ref.SessionID), entryOf(r.Until, ref))
		if err != nil && !errors.Is(err, repo.ErrNotFound) {
			return nil, err
		}
		var found seal
		if err == nil && json.Unmarshal(value.Value, &found) == nil && found.Sum == hash(stored.Value) {
			r.seal = value.Version
			return r, nil
		}
		if stored.Version == last { // otherwise somebody may have changed both between the two reads
			return nil, &ForeignError{ref}
		}
		last = stored.Version
	}
}

// changes returns what makes a request another one, of a later status or with another vote. With conditions it is
// refused if somebody else was first.
func (r *record) changes(status Status, votes []Vote, conditions bool) []repo.StateChange {
	entry, doc := entryOf(r.Until, r.Ref), encoded(r.asked, status, votes)
	all := []repo.StateChange{
		{Scope: repo.Scope{SessionID: r.SessionID}, Key: keyOf(r.ID), Value: doc},
		{Scope: ledger(r.SessionID), Key: entry, Op: repo.StateRemove},
	}
	if status == Open || status == Approved {
		all[1].Op, all[1].Value = repo.StateSet, sealed(doc, r.Deciders)
	}
	if conditions {
		all[0].IfVersion, all[1].IfVersion = &r.version, &r.seal
	}
	if r.Status != Open {
		return all
	}
	for _, name := range r.Deciders {
		voted := slices.ContainsFunc(votes, func(v Vote) bool { return v.By == name })
		if status != Open || voted {
			all = append(all, repo.StateChange{Scope: repo.Scope{Name: ScopeOf(name)}, Key: entry, Op: repo.StateRemove})
		}
	}
	return all
}

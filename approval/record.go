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
//     Decisions and uses need the seal: a copy of the session has none, and a writer of the session's state cannot
//     make one.
//   - the shared scope of each decider (ScopeOf) has an entry for as long as the request waits for that decider.
//
// The keys of the shared scopes begin with the expiry, so that lists are in its order, and a sweep reads what has
// expired alone.

// seal is the value in the ledger. The value of a decider's entry is the request's sum.
type seal struct {
	Sum string   `json:"sum"` // of the stored request
	For []string `json:"for"` // the deciders, whose entries a sweep removes if the session is gone
}

// record is a request with the versions of its places.
type record struct {
	Request
	doc     json.RawMessage // as it is stored
	version int64
	seal    int64 // zero: there is none that fits
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func keyOf(id string) string { return "approval/" + id }

// shards is the number of a namespace's ledgers: with several, asking callers seldom wait for each other. It is
// fixed.
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

// as returns the request at another status, with other votes.
func (r Request) as(status Status, votes []Vote) Request {
	r.Status, r.Votes = status, votes
	return r
}

func encode(value any) json.RawMessage {
	text, _ := json.Marshal(value) //nolint:errchkjson // of texts and numbers, which were checked
	return text
}

// errMoved reports that another writer has changed a request since it was read.
var errMoved = errors.New("another writer was first")

// moved returns errMoved for a conflict about requests. A conflict about the caller's own changes stays as it is.
func moved(err error) error {
	if _, is := errors.AsType[*repo.VersionConflictError](err); is {
		return errMoved
	}
	return err
}

// read returns a request without looking at its seal.
func read(ctx context.Context, state repo.State, ref Ref) (*record, error) {
	if ref.SessionID.IsZero() || ref.ID == "" {
		return nil, &repo.InvalidError{Field: "ref", Reason: "names no request"}
	}
	stored, err := state.Get(ctx, repo.Scope{SessionID: ref.SessionID}, keyOf(ref.ID))
	if errors.Is(err, repo.ErrNotFound) {
		err = &repo.NotFoundError{Kind: "approval", Name: ref.ID}
	}
	if err != nil {
		return nil, err
	}
	r := &record{Request{Ref: ref, UpdatedAt: stored.UpdatedAt}, stored.Value, stored.Version, 0}
	if json.Unmarshal(r.doc, &r.Request) != nil {
		return nil, &ForeignError{ref}
	}
	return r, nil
}

// load returns a request. If it is open or approved, its seal must match: otherwise the error is a ForeignError.
func load(ctx context.Context, state repo.State, ref Ref) (*record, error) {
	last := int64(-1)
	for {
		r, err := read(ctx, state, ref)
		if err != nil || r.Status != Open && r.Status != Approved {
			return r, err
		}
		value, err := state.Get(ctx, ledger(ref.SessionID), entryOf(r.Until, ref))
		if err != nil && !errors.Is(err, repo.ErrNotFound) {
			return nil, err
		}
		var found seal
		if err == nil && json.Unmarshal(value.Value, &found) == nil && found.Sum == hash(r.doc) {
			r.seal = value.Version
			return r, nil
		}
		if r.version == last { // otherwise a writer may have changed both between the two reads
			return nil, &ForeignError{ref}
		}
		last = r.version
	}
}

// changes returns the changes that give a request a later status or another vote. With conditions the store
// refuses them if another writer was first.
func (r *record) changes(status Status, votes []Vote, conditions bool) []repo.StateChange {
	entry, doc := entryOf(r.Until, r.Ref), encode(r.as(status, votes))
	all := []repo.StateChange{
		{Scope: repo.Scope{SessionID: r.SessionID}, Key: keyOf(r.ID), Value: doc},
		{Scope: ledger(r.SessionID), Key: entry, Op: repo.StateRemove},
	}
	if status == Open || status == Approved {
		all[1].Op, all[1].Value = repo.StateSet, encode(seal{hash(doc), r.Deciders})
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

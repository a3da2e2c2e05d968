package files

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-df90f812/agentstore/internal/jsonvalue"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

// What is known of a file is in its owner's state:
//
//   - file/NAME/VERSION has a version, and file-last/NAME the newest one again;
//   - file-id/ID has the key of the version with that id;
//   - file-count/NAME counts the versions, and stays when they are deleted.
//
// What refers to bytes is in one of the namespace's sixteen shared scopes, by the first digit of their hash, so that
// a writer of an owner's state cannot make it:
//
//   - ref/ID/OWNER says where the bytes of a version are;
//   - use/HASH/ID/OWNER is there as long as that, and object/HASH says which blob has the bytes;
//   - put/BLOB is there before its bytes are, until something refers to them;
//   - gone/ID/OWNER, free/HASH and trash/BLOB are what Sweep looks at: a version that was deleted, bytes that may be in
//     no use any more, and bytes that are in none.

// Owner is the owner of files. The zero Owner is invalid.
type Owner struct{ scope repo.Scope }

// OfSession are the files of a session, which go with it.
func OfSession(id repo.ID) Owner { return Owner{repo.Scope{SessionID: id}} }

// OfUser are the files of a user, of 1 to repo.MaxNameBytes bytes.
func OfUser(user string) Owner {
	if user == "" || len(user) > repo.MaxNameBytes {
		return Owner{}
	}
	return Owner{repo.Scope{Name: ScopeOf(user)}}
}

// OfNamespace are the files that belong to the whole namespace.
func OfNamespace() Owner { return Owner{repo.Scope{Name: "files/of/namespace"}} }

// ScopeOf is the name of the shared state with a user's files; the user's name is hashed. To erase a person, name it in
// erase.Request.Scopes.
func ScopeOf(user string) string { return "files/of/user/" + hashed([]byte(user)) }

// key is the owner in keys.
func (o Owner) key() string {
	if o.scope.Name != "" {
		return o.scope.Name
	}
	return o.scope.SessionID.String()
}

func parseOwner(key string) Owner {
	if id, err := repo.ParseID(key); err == nil {
		return OfSession(id)
	}
	return Owner{repo.Scope{Name: key}}
}

func (o Owner) check() error {
	return invalidIf(o == Owner{}, "owner", "is empty, or has too long a name")
}

// File is a version of a file.
type File struct {
	Owner    Owner           `json:"-"`
	Name     string          `json:"name"`
	Version  int64           `json:"version"` // from 1
	ID       string          `json:"id"`      // what a message refers to it by: it cannot be guessed
	Type     string          `json:"type"`    // the media type
	Size     int64           `json:"size"`    // bytes
	SHA256   string          `json:"sha256"`  // in lower-case hexadecimal
	Metadata json.RawMessage `json:"metadata"`
	// Sequence is the next sequence that the session had, so that only messages from there on refer to the version.
	Sequence int64     `json:"sequence"`
	SavedAt  time.Time `json:"saved_at"` // by the database's clock
}

// NewFile describes a version to save.
type NewFile struct {
	Name     string          // of 1 to repo.MaxNameBytes bytes of UTF-8 without NUL
	Type     string          // the media type, such as "image/png"; empty: application/octet-stream
	Metadata json.RawMessage // an object of at most MaxMetadata bytes; nil: "{}"
}

func (n NewFile) check() error {
	_, _, err := mime.ParseMediaType(cmp.Or(n.Type, octets))
	odd := strings.ContainsFunc(n.Type, func(r rune) bool { return r < ' ' || r > '~' })
	return cmp.Or(
		checkName(n.Name),
		invalidIf(err != nil || odd || len(n.Type) > repo.MaxNameBytes, "file.type", "is no media type of at most 255 bytes"),
		invalidIf(len(n.Metadata) > MaxMetadata, "file.metadata", "has more than 64 KiB"),
		invalidIf(n.Metadata != nil && jsonvalue.CheckObject(n.Metadata, limits.MaxJSONDepth-1) != nil,
			"file.metadata", "is no JSON object that can be kept"),
	)
}

const octets = "application/octet-stream"

func checkName(name string) error {
	bad := name == "" || len(name) > repo.MaxNameBytes || !utf8.ValidString(name) || strings.Contains(name, "\x00")
	return invalidIf(bad, "file.name", "is not 1 to 255 bytes of UTF-8 without NUL")
}

func versionKey(name string, version int64) string {
	return repo.JoinKey("file", name, fmt.Sprintf("%016x", version))
}
func idKey(id string) string      { return "file-id/" + id }
func countKey(name string) string { return repo.JoinKey("file-count", name) }
func lastKey(name string) string  { return repo.JoinKey("file-last", name) }

// shard returns the shared scope for a digit.
func shard(digit string) repo.Scope { return repo.Scope{Name: "files/shard/" + digit[:1]} }

// checkID tells what may be an id from what is none. An id begins with the first digit of the hash.
func checkID(id string) error {
	bad := len(id) < 20 || len(id) > 64 || !strings.Contains(digits, id[:1]) ||
		strings.Trim(id[1:], "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != ""
	return invalidIf(bad, "id", "is no id of a file")
}

const digits = "0123456789abcdef"

func hashed(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func encode(value any) json.RawMessage {
	text, _ := json.Marshal(value) //nolint:errchkjson // of texts, numbers, times and what was checked
	return text
}

var yes = json.RawMessage("true")

// lockKey is never there: that it is removed locks a scope.
const lockKey = "file-lock"

func set(scope repo.Scope, key string, value json.RawMessage) repo.StateChange {
	return repo.StateChange{Scope: scope, Key: key, Value: value}
}

func remove(scope repo.Scope, key string) repo.StateChange {
	return repo.StateChange{Scope: scope, Key: key, Op: repo.StateRemove}
}

// ref is where the bytes of a version are.
type ref struct {
	SHA256 string `json:"sha256"`
	Blob   string `json:"blob"`
}

func refKey(id string, owner Owner) string      { return "ref/" + id + "/" + owner.key() }
func useKey(sum, id string, owner Owner) string { return "use/" + sum + "/" + id + "/" + owner.key() }

// refer returns the changes by which a version refers to bytes.
func (r ref) refer(id string, owner Owner) []repo.StateChange {
	return []repo.StateChange{
		set(shard(r.SHA256), refKey(id, owner), encode(r)),
		set(shard(r.SHA256), useKey(r.SHA256, id, owner), yes),
	}
}

// describe returns the changes by which an owner has a version.
func (f File) describe() []repo.StateChange {
	key := versionKey(f.Name, f.Version)
	return []repo.StateChange{
		set(f.Owner.scope, key, encode(f)), set(f.Owner.scope, idKey(f.ID), encode(key)),
	}
}

// get reads the value of a key as JSON. Errors: NotFoundError of the kind "file" if there is no such key.
func get(ctx context.Context, state repo.State, scope repo.Scope, key string, into any) error {
	value, err := state.Get(ctx, scope, key)
	if missing, is := errors.AsType[*repo.NotFoundError](err); is && missing.Kind != "session" {
		return &repo.NotFoundError{Kind: "file"}
	}
	if err != nil {
		return err
	}
	return decode(value, into)
}

func decode(value repo.StateValue, into any) error {
	if json.Unmarshal(value.Value, into) != nil {
		return &repo.InvalidError{Field: "state", Reason: "has something else than a file under the key of one"}
	}
	return nil
}

// write makes changes, however many, in a transaction that has locked their scopes.
func write(ctx context.Context, state repo.State, changes []repo.StateChange) error {
	for some := range slices.Chunk(changes, 300) { // of which each has the largest metadata, perhaps
		if _, err := state.Change(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

// lock locks the scopes of changes, in the order in which every writer does.
func lock(ctx context.Context, state repo.State, changes []repo.StateChange) error {
	locks := map[repo.Scope]repo.StateChange{}
	for _, c := range changes {
		locks[c.Scope] = remove(c.Scope, lockKey)
	}
	_, err := state.Change(ctx, slices.Collect(maps.Values(locks)))
	return err
}

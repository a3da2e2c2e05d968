package repo

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"strings"
)

// SessionKey is the caller's own name of a session: any text of at most MaxKeyBytes,
// unique in its namespace. A session that is created with a key has the id ID(), so
// that every operation takes a key as well: sessions.Get(ctx, key.ID()). ByKey has
// operations whose errors name the key. JoinKey makes a key of several parts.
type SessionKey struct {
	// Namespace: empty means DefaultNamespace.
	Namespace string
	Key       string
}

// ID returns the id of the session with this key: the first 16 bytes of the SHA-256
// of "agentstore session key", and of the namespace and the key, each after its
// length in bytes as 4 bytes, big-endian. Different keys have different ids, except
// that somebody who can compute 2^64 hashes could find two of the same id; creating
// the second session is then a SessionConflictError.
//
// Only a creation checks the key. The other operations, also those of ByKey, use the
// session with this id, whatever its key. So do not let somebody choose the ids of new
// sessions, or import documents, who may not write to every session: a session with this
// id and without the key is then found instead.
func (k SessionKey) ID() ID {
	return HashID("agentstore session key", k.namespace(), k.Key)
}

func (k SessionKey) namespace() string { return cmp.Or(k.Namespace, DefaultNamespace) }

// HashID returns the id that stands for texts of the caller's, such as an id that another
// system gave: the same one for the same texts in the same order, and another one for others.
// purpose, without NUL, tells apart what ids are for. It is computed as SessionKey.ID is, from the purpose
// instead of "agentstore session key". It contains no time of creation: lists by id have such
// ids in an arbitrary order, and an AuditEntry with one needs OccurredAt.
func HashID(purpose string, texts ...string) ID {
	data := []byte(purpose)
	for _, text := range texts {
		data = binary.BigEndian.AppendUint32(data, uint32(len(text)))
		data = append(data, text...)
	}
	sum := sha256.Sum256(data)
	return ID(sum[:len(ID{})])
}

var (
	keyEscaper   = strings.NewReplacer("~", "~0", "/", "~1")
	keyUnescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

// JoinKey joins parts, such as a tenant, an application, a user and a session of the
// user's, to one text with slashes between them. As in a JSON pointer (RFC 6901), "~"
// in a part becomes "~0" and "/" becomes "~1", so that different parts give different
// texts; only no part at all is the same as one that is empty. SplitKey is the inverse.
func JoinKey(parts ...string) string {
	escaped := make([]string, len(parts))
	for i, part := range parts {
		escaped[i] = keyEscaper.Replace(part)
	}
	return strings.Join(escaped, "/")
}

// SplitKey returns the parts that JoinKey joined.
func SplitKey(key string) []string {
	parts := strings.Split(key, "/")
	for i, part := range parts {
		parts[i] = keyUnescaper.Replace(part)
	}
	return parts
}

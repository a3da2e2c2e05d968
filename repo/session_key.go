package repo

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"strings"
)

// SessionKey is the caller's own name of a session: any text of at most MaxKeyBytes,
// unique in its namespace. SessionReader.Find finds the session that has it, and ByKey
// has operations that find it first. A session that is deleted and made again under its
// key is another one, with another id. JoinKey makes a key of several parts.
type SessionKey struct {
	// Namespace: empty means DefaultNamespace.
	Namespace string
	Key       string
}

func (k SessionKey) namespace() string { return cmp.Or(k.Namespace, DefaultNamespace) }

// HashID returns the id that stands for texts of the caller's, such as an id that another
// system gave: the same one for the same texts in the same order, and another one for others.
// It is the first 16 bytes of the SHA-256 of purpose and of the texts, each after its length in
// bytes as 4 bytes, big-endian. purpose, without NUL, tells apart what ids are for. Such an id
// contains no time of creation: lists by id have it in an arbitrary place, and an AuditEntry with
// one needs OccurredAt.
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

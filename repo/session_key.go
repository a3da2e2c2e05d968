package repo

import (
	"cmp"
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

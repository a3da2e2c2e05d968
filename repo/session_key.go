package repo

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"strings"
)

// SessionKey is the caller's name of a session, unique in its namespace.
type SessionKey struct {
	Namespace string // empty: DefaultNamespace
	Key       string // at most MaxKeyBytes
}

var keyEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// JoinKey joins parts to one text with slashes between them. As in a JSON pointer, "~" becomes "~0" and "/" "~1".
// adapter.SplitKey is the inverse.
func JoinKey(parts ...string) string {
	escaped := make([]string, len(parts))
	for i, part := range parts {
		escaped[i] = keyEscaper.Replace(part)
	}
	return strings.Join(escaped, "/")
}

// Bucket returns which of n namespaces, at least 1, is a user's where many share
// one: "bucket-0" and so on. It never changes, but for another n.
func Bucket(user string, n int) string {
	digest := sha256.Sum256([]byte(user))
	return "bucket-" + strconv.FormatUint(binary.BigEndian.Uint64(digest[:8])%uint64(max(n, 1)), 10)
}

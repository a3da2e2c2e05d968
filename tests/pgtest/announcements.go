package pgtest

import (
	"bytes"
	"regexp"
	"sync"
)

// Announcements recognizes the statement by which a store announces what it has committed, by itself and at any time
// after a commit, among what it sends.
type Announcements struct {
	mu       sync.Mutex
	prepared []byte // the statement's name
}

var prepares = regexp.MustCompile("(stmtcache_[0-9a-f]+)\x00-- name: LiveNotify ")

// Sent reports whether an announcement was sent. The driver says a statement's text before it says only its name.
func (a *Announcements) Sent(sent []byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if found := prepares.FindSubmatch(sent); found != nil {
		a.prepared = bytes.Clone(found[1])
	}
	return bytes.Contains(sent, []byte("-- name: LiveNotify ")) || len(a.prepared) > 0 && bytes.Contains(sent, a.prepared)
}

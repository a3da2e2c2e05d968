package directory

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// part is where in a listing a page is.
type part int

const (
	partStarred part = iota // starred ones
	partRest                // the others
	partAgain               // moved ones
)

// place is where a page ends. All that is above At and ID was given, or is given again.
type place struct {
	Part part      `json:"p,omitempty"`
	At   time.Time `json:"t,omitzero"`
	ID   repo.ID   `json:"i,omitzero"`
	// Walk: sessions are read by activity, from After on.
	Walk  bool   `json:"w,omitempty"`
	After string `json:"a,omitempty"`
	// Starred is the version of the owner's scope when the first page was read. What was starred later is no longer first.
	Starred int64 `json:"s,omitempty"`
	Round   int   `json:"r,omitempty"`
	Head    head  `json:"h,omitzero"`
	Next    head  `json:"n,omitzero"` // of the next round
}

// head is the front of the list at a moment. What has moved since is in front of it, unless Known has its mark.
type head struct {
	At    time.Time `json:"t,omitzero"`
	Known []byte    `json:"k,omitempty"` // the marks of the sessions that are not before At, 8 bytes each
}

// headOf returns the head of the sessions that were active last.
func headOf(sessions []repo.Session) (h head) {
	for i, s := range sessions[:min(len(sessions), maxAgain)] {
		if i == 0 {
			h.At = s.UpdatedAt.Add(-late)
		}
		if !s.UpdatedAt.Before(h.At) {
			h.Known = append(h.Known, markOf(s)...)
		}
	}
	return h
}

// markOf returns a hash of a session's last activity.
func markOf(s repo.Session) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", s.ID, s.UpdatedAt.UnixMicro()))
	return sum[:8]
}

// stays reports whether a session has not moved since.
func (h head) stays(s repo.Session) bool {
	mark, stays := markOf(s), s.UpdatedAt.Before(h.At)
	for known := range slices.Chunk(h.Known, 8) {
		stays = stays || bytes.Equal(known, mark)
	}
	return stays
}

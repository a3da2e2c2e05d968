// Package hints knows where rows are that are written often.
package hints

import (
	"sync"

	"github.com/jackc/pgx/v5/pgtype"
)

// Hints are the places of rows, of sessions' counters or of leases, as this process last wrote them. A statement
// that is given one finds the row without the index, which leads it over each version of the row
// that an open snapshot keeps (MessageAppendOne in queries/messages.sql). A hint is never relied
// on: the statement locks the row that is there if it is the right one, and otherwise finds
// none. The zero value is ready to use.
type Hints[K comparable] struct {
	mu sync.Mutex
	at map[K]hint
}

// Place is where a statement has left a row.
type Place[K comparable] struct {
	Key  K
	Hint pgtype.TID
	// Of a session's counter: the statement has written the sequences from First to below Next.
	First, Next int64
}

type hint struct {
	tid  pgtype.TID
	next int64
	// shared: another process has written before this one. Then the row is likely to be
	// elsewhere again, and a hint would cost a look in vain.
	shared bool
}

// maxHints bounds the memory of hints, to about 1 MB. They matter for what is written most.
const maxHints = 1 << 14

// Of returns where a row may be. The zero value: nobody knows.
func (h *Hints[K]) Of(key K) pgtype.TID {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := h.at[key]; !known.shared {
		return known.tid
	}
	return pgtype.TID{}
}

// Learn notes where statements that were committed have left rows.
func (h *Hints[K]) Learn(places ...Place[K]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.at == nil {
		h.at = map[K]hint{}
	}
	for _, p := range places {
		before, found := h.at[p.Key]
		if !found && len(h.at) >= maxHints {
			for some := range h.at {
				delete(h.at, some)
				break
			}
		}
		h.at[p.Key] = hint{tid: p.Hint, next: p.Next, shared: found && before.next != p.First}
	}
}

// Forget notes that a row is no longer where it was.
func (h *Hints[K]) Forget(key K) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known, found := h.at[key]; found {
		h.at[key] = hint{next: known.next}
	}
}

package postgres

import (
	"sync"

	"github.com/jackc/pgx/v5/pgtype"
)

// hints are the places of rows, of sessions' counters or of leases, as this process last wrote them. A statement
// that is given one finds the row without the index, which leads it over each version of the row
// that an open snapshot keeps (MessageAppendOne in queries/messages.sql). A hint is never relied
// on: the statement locks the row that is there if it is the right one, and otherwise finds
// none. The zero value is ready to use.
type hints[K comparable] struct {
	mu sync.Mutex
	at map[K]hint
}

// place is where a statement has left a row.
type place[K comparable] struct {
	key  K
	hint pgtype.TID
	// Of a session's counter: the statement has written the sequences from first to below next.
	first, next int64
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

// of returns where a row may be. The zero value: nobody knows.
func (h *hints[K]) of(key K) pgtype.TID {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := h.at[key]; !known.shared {
		return known.tid
	}
	return pgtype.TID{}
}

// learn notes where statements that were committed have left rows.
func (h *hints[K]) learn(places ...place[K]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.at == nil {
		h.at = map[K]hint{}
	}
	for _, p := range places {
		before, found := h.at[p.key]
		if !found && len(h.at) >= maxHints {
			for any := range h.at {
				delete(h.at, any)
				break
			}
		}
		h.at[p.key] = hint{tid: p.hint, next: p.next, shared: found && before.next != p.first}
	}
}

// forget notes that a row is no longer where it was.
func (h *hints[K]) forget(key K) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known, found := h.at[key]; found {
		h.at[key] = hint{next: known.next}
	}
}

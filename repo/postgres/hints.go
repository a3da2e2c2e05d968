package postgres

import (
	"sync"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/repo"
)

// hints are the places of sessions' counter rows, as this process last wrote them. A statement
// that is given one finds the row without the index, which leads it over each version of the row
// that an open snapshot keeps (MessageAppendOne in queries/messages.sql). A hint is never relied
// on: the statement locks the row that is there if it is the right one, and otherwise finds
// none. The zero value is ready to use.
type hints struct {
	mu sync.Mutex
	at map[repo.ID]hint
}

// place is where a statement has left the counter row of a session.
type place struct {
	id   repo.ID
	hint pgtype.TID
	// The statement has written the sequences from first to below next.
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
func (h *hints) of(id repo.ID) pgtype.TID {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := h.at[id]; !known.shared {
		return known.tid
	}
	return pgtype.TID{}
}

// learn notes where statements that were committed have left rows.
func (h *hints) learn(places ...place) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.at == nil {
		h.at = map[repo.ID]hint{}
	}
	for _, p := range places {
		before, found := h.at[p.id]
		if !found && len(h.at) >= maxHints {
			for any := range h.at {
				delete(h.at, any)
				break
			}
		}
		h.at[p.id] = hint{tid: p.hint, next: p.next, shared: found && before.next != p.first}
	}
}

// forget notes that a row is no longer where it was.
func (h *hints) forget(id repo.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known, found := h.at[id]; found {
		h.at[id] = hint{next: known.next}
	}
}

// Package hints knows where rows are that are written often.
package hints

import (
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/repo/postgres/internal/cache"
)

// Hints are the places of rows, of sessions' counters, scopes and keys of state, or of leases, as this process last
// wrote them. A statement that is given one finds the row without the index, which leads it over each version of the
// row that an open snapshot keeps (MessageAppendOne in queries/messages.sql). A hint is never relied on: the statement
// locks the row that is there if it is the right one, and otherwise finds none. The zero value is ready to use.
type Hints[K comparable] struct {
	at cache.Cache[K, hint]
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

// Of returns where a row may be. The zero value: unknown.
func (h *Hints[K]) Of(key K) pgtype.TID {
	if known, _ := h.at.Get(key); !known.shared {
		return known.tid
	}
	return pgtype.TID{}
}

// Learn notes where statements that were committed have left rows.
func (h *Hints[K]) Learn(places ...Place[K]) {
	for _, p := range places {
		before, found := h.at.Get(p.Key)
		h.at.Put(p.Key, hint{tid: p.Hint, next: p.Next, shared: found && before.next != p.First}, 0)
	}
}

// Forget notes that a row is no longer where it was.
func (h *Hints[K]) Forget(key K) {
	if known, found := h.at.Get(key); found {
		h.at.Put(key, hint{next: known.next}, 0)
	}
}

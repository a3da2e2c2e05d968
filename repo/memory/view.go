package memory

import (
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// view is what one operation reads and changes. Its methods are called between
// an access's lock and unlock, and what they return is not to be used after.
type view interface {
	// find returns the session's record, to be read only; nil: there is none.
	find(id repo.ID) *record
	// edit returns the record to be changed, which find has found. The caller
	// has made its checks: what it begins to change, it changes whole.
	edit(id repo.ID) *record
	// insert adds a record whose id find has not found, remove takes out one
	// that it has.
	insert(r *record)
	remove(id repo.ID)
	// list returns the newest records that the query selects, newest first.
	list(q *query) []*record
	now() time.Time
}

// The direct view is the committed state, which it changes in place.

func (d *direct) find(id repo.ID) *record { return d.tables.sessions[id] }
func (d *direct) edit(id repo.ID) *record { return d.tables.sessions[id] }
func (d *direct) insert(r *record)        { d.tables.insert(r) }
func (d *direct) remove(id repo.ID)       { d.tables.remove(id) }
func (d *direct) list(q *query) []*record { return d.tables.list(q, nil) }

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

	actions() shelf[string, repo.Action]
	plans() shelf[repo.ID, planRecord]
	// links has each session's plans, by id.
	links() shelf[repo.ID, []repo.ID]

	entries() shelf[entryKey, repo.SealedEntry]
	// queue has an entry wait to be sealed.
	queue(key entryKey)
	// sealed reports whether an entry is in the log, which it does not leave
	// when it is pruned.
	sealed(key entryKey) bool
}

// The direct view is the committed state, which it changes in place.

func (d *direct) find(id repo.ID) *record { return d.tables.sessions[id] }
func (d *direct) edit(id repo.ID) *record { return d.tables.sessions[id] }
func (d *direct) insert(r *record)        { d.tables.insert(r) }
func (d *direct) remove(id repo.ID)       { d.tables.remove(id) }
func (d *direct) list(q *query) []*record { return d.tables.list(q, nil) }

func (d *direct) actions() shelf[string, repo.Action] { return d.tables.actions }
func (d *direct) plans() shelf[repo.ID, planRecord]   { return d.tables.plans }
func (d *direct) sealed(key entryKey) bool {
	_, sealed := d.tables.log.byEntry[key]
	return sealed
}

func (d *direct) entries() shelf[entryKey, repo.SealedEntry] { return d.tables.entries }
func (d *direct) queue(key entryKey)                         { d.tables.log.unsealed = append(d.tables.log.unsealed, key) }

func (d *direct) links() shelf[repo.ID, []repo.ID] { return d.tables.links }

package memory

import (
	"slices"

	"github.com/seed-df90f812/agentstore/repo"
)

// tables is the committed state.
type tables struct {
	sessions map[repo.ID]*record
	// byAge has the records of each namespace, oldest first.
	byAge   map[string][]*record
	actions base[string, repo.Action]
	plans   base[repo.ID, planRecord]
	links   base[repo.ID, []repo.ID]
	entries base[entryKey, repo.SealedEntry]
	log     *sealedLog
}

func newTables() tables {
	return tables{
		sessions: map[repo.ID]*record{}, byAge: map[string][]*record{},
		actions: base[string, repo.Action]{}, plans: base[repo.ID, planRecord]{}, links: base[repo.ID, []repo.ID]{},
		entries: base[entryKey, repo.SealedEntry]{}, log: newSealedLog(),
	}
}

// older orders records by CreatedAt, then ID.
func older(a, b *record) int {
	if order := a.session.CreatedAt.Compare(b.session.CreatedAt); order != 0 {
		return order
	}
	return a.session.ID.Compare(b.session.ID)
}

func (t *tables) insert(r *record) {
	t.sessions[r.session.ID] = r
	list := t.byAge[r.session.Namespace]
	// A new session is the newest one, but for imported ones.
	at := len(list)
	if at > 0 && older(list[at-1], r) > 0 {
		at, _ = slices.BinarySearchFunc(list, r, older)
	}
	t.byAge[r.session.Namespace] = slices.Insert(list, at, r)
}

func (t *tables) remove(id repo.ID) {
	r := t.sessions[id]
	delete(t.sessions, id)
	list := t.byAge[r.session.Namespace]
	if at, found := slices.BinarySearchFunc(list, r, older); found {
		list = slices.Delete(list, at, at+1)
	}
	if len(list) == 0 {
		delete(t.byAge, r.session.Namespace)
		return
	}
	t.byAge[r.session.Namespace] = list
}

// list returns up to q.limit records, newest first, without those that skip
// names. A nil skip names none.
func (t *tables) list(q *query, skip func(repo.ID) bool) []*record {
	list := t.byAge[q.filter.Namespace]
	// The record that the page before ended with may be gone; its place is not.
	end, _ := slices.BinarySearchFunc(list, &q.after, older)
	var found []*record
	for i := end - 1; i >= 0 && len(found) < q.limit; i-- {
		r := list[i]
		if r.session.CreatedAt.Before(q.filter.CreatedFrom) {
			break
		}
		if q.selects(r) && (skip == nil || !skip(r.session.ID)) {
			found = append(found, r)
		}
	}
	return found
}

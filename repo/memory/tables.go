package memory

import (
	"maps"
	"slices"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/repo"
)

// tables is the state that operations read and change: the committed state, or a
// transaction's overlay of it.
type tables struct {
	*core
	// base is the committed state under an overlay. Nil: this is the committed state.
	base *tables
	data
}

type data struct {
	sessions table[repo.ID, sessionRow]
	// byKey has the ids of the sessions that have a key, and deletedIDs those of all that were
	// deleted, with their namespaces: they are not given again.
	byKey      table[repo.SessionKey, repo.ID]
	deletedIDs table[repo.ID, string]
	// importers has the forks with whose import messages came, which are of no session, by the ids that these say.
	importers table[repo.ID, repo.ID]
	// holds has the legal holds, by what they name.
	holds table[repo.LegalHold, repo.LegalHold]
	// byAge has the committed sessions of each namespace, oldest first.
	byAge   map[string][]*sessionRow
	actions table[string, repo.Action]
	plans   table[repo.ID, planRow]
	// planKeys has the plans whose uses had a key.
	planKeys table[planKey, repo.ID]
	// queue has the plans that are queued, and claims those that are processed under a
	// claim.
	queue  table[repo.ID, planRow]
	claims table[repo.ID, claimRow]
	// limits are those of claims, by namespace and action.
	limits  table[repo.PlanLimit, int]
	scopes  table[repo.Scope, scopeRow]
	leases  table[repo.LeaseKey, repo.Lease]
	streams table[repo.ID, streamRow]
	// streamKeys has the newest stream of each key.
	streamKeys table[string, repo.ID]
	entries    table[repo.ID, auditlog.Entry]
	// unsealed are the entries that wait to be sealed, in order; in an overlay, the
	// transaction's own.
	unsealed []repo.ID
	// log is not part of a transaction, which only looks up what is sealed.
	log *sealedLog
}

func newTables(c *core) *tables {
	return &tables{core: c, data: data{byAge: map[string][]*sessionRow{}, log: newSealedLog()}}
}

func (t *tables) overlay() *tables {
	return &tables{t.core, t, data{
		sessions: t.sessions.overlay(), byKey: t.byKey.overlay(), deletedIDs: t.deletedIDs.overlay(), importers: t.importers.overlay(),
		holds: t.holds.overlay(), actions: t.actions.overlay(),
		plans: t.plans.overlay(), planKeys: t.planKeys.overlay(),
		queue: t.queue.overlay(), claims: t.claims.overlay(), limits: t.limits.overlay(), scopes: t.scopes.overlay(), leases: t.leases.overlay(),
		streams: t.streams.overlay(), streamKeys: t.streamKeys.overlay(), entries: t.entries.overlay(),
		log: t.log,
	}}
}

// commit makes an overlay's changes the committed state.
func (t *tables) commit() {
	for id, r := range t.sessions.rows {
		if r != nil && r.committed != nil {
			r.commit()
			t.base.wake(topic{id: id})
			continue
		}
		if old := t.base.sessions.get(id); old != nil {
			t.base.removeSession(old)
		}
		if r != nil {
			t.base.insertSession(r)
		}
	}
	t.byKey.commit()
	t.deletedIDs.commit()
	t.importers.commit()
	t.holds.commit()
	t.actions.commit()
	t.plans.commit()
	t.planKeys.commit()
	t.queue.commit()
	t.claims.commit()
	t.limits.commit()
	t.base.wake(topic{claims: true})
	t.commitScopes()
	freed := slices.DeleteFunc(slices.Collect(maps.Keys(t.leases.rows)), func(key repo.LeaseKey) bool { return t.leases.rows[key] != nil })
	t.leases.commit()
	for _, key := range freed {
		t.base.freed(key)
	}
	t.commitStreams()
	t.entries.commit()
	t.base.unsealed = append(t.base.unsealed, t.unsealed...)
}

// session returns a session to be read. Error: repo.NotFoundError.
func (t *tables) session(id repo.ID) (*sessionRow, error) {
	r := t.sessions.get(id)
	if r == nil {
		return nil, sessionNotFound(id)
	}
	return r, nil
}

func sessionNotFound(id repo.ID) error { return &repo.NotFoundError{Kind: "session", ID: id} }

// editSession returns a session to be changed. The caller checks everything first, so
// that it never stops in the middle of a change. Error: repo.NotFoundError.
func (t *tables) editSession(id repo.ID) (*sessionRow, error) {
	r, err := t.session(id)
	t.wake(topic{id: id})
	if err == nil && t.base != nil && t.sessions.rows[id] == nil {
		r = r.overlay()
		t.sessions.put(id, r)
	}
	return r, err
}

// taken returns the sessions with an id and with a key.
func (t *tables) taken(id repo.ID, key repo.SessionKey) (taken []*sessionRow) {
	byKey := t.byKey.get(key)
	if r := t.sessions.get(id); r != nil {
		taken = append(taken, r)
	}
	if byKey != nil && *byKey != id {
		taken = append(taken, t.sessions.get(*byKey))
	}
	return taken
}

// insertSession adds a session whose id and key are not taken.
func (t *tables) insertSession(r *sessionRow) {
	t.sessions.put(r.ID, r)
	if r.Key != "" {
		t.byKey.put(r.sessionKey(), &r.ID)
	}
	t.wake(topic{id: r.ID})
	if t.base != nil {
		return
	}
	list := t.byAge[r.Namespace]
	at, _ := slices.BinarySearchFunc(list, r, compareAge)
	t.byAge[r.Namespace] = slices.Insert(list, at, r)
}

func (t *tables) removeSession(r *sessionRow) {
	t.sessions.remove(r.ID)
	if id := t.byKey.get(r.sessionKey()); id != nil && *id == r.ID {
		t.byKey.remove(r.sessionKey())
	}
	t.deletedIDs.put(r.ID, &r.Namespace)
	t.wake(topic{id: r.ID})
	if t.base != nil {
		return
	}
	list := t.byAge[r.Namespace]
	if at, found := slices.BinarySearchFunc(list, r, compareAge); found {
		list = slices.Delete(list, at, at+1)
	}
	if t.byAge[r.Namespace] = list; len(list) == 0 {
		delete(t.byAge, r.Namespace)
	}
}

// action returns an action. Error: repo.NotFoundError.
func (t *tables) action(name repo.ActionName) (*repo.Action, error) {
	action := t.actions.get(name.String())
	if action == nil {
		return nil, &repo.NotFoundError{Kind: "action", Name: name.String()}
	}
	return action, nil
}

// plan returns a plan. Error: repo.NotFoundError.
func (t *tables) plan(id repo.ID) (*planRow, error) {
	r := t.plans.get(id)
	if r == nil {
		return nil, planNotFound(id)
	}
	return r, nil
}

func planNotFound(id repo.ID) error { return &repo.NotFoundError{Kind: "plan", ID: id} }

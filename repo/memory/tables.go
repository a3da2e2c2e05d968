package memory

import (
	"time"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/rules"
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
	// namespaces has which sessions are in each, so that a list looks at no others.
	namespaces table[string, namespaceRow]
	// byKey has the ids of the sessions that have a key, and deletedIDs the ids of all deleted
	// ones, with their namespaces: they are not given again.
	byKey      table[repo.SessionKey, repo.ID]
	deletedIDs table[repo.ID, string]
	// importers has the forks with whose import messages came, which are of no session, by the ids that these say.
	importers table[repo.ID, repo.ID]
	// holds has the legal holds, by what they name.
	holds   table[repo.LegalHold, repo.LegalHold]
	actions table[string, repo.Action]
	plans   table[repo.ID, planRow]
	// planKeys has the plans whose uses had a key.
	planKeys table[planKey, repo.ID]
	// queue has the plans that are queued, and claims the plans that are processed
	// under a claim.
	queue  table[repo.ID, planRow]
	claims table[repo.ID, claimRow]
	// limits are the limits of claims, by namespace and action.
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

// overlaid is a table of any kind.
type overlaid interface {
	over(base any)
	commit()
}

// tables returns the tables, always in one order.
func (d *data) tables() []overlaid {
	return []overlaid{
		&d.sessions, &d.namespaces, &d.byKey, &d.deletedIDs, &d.importers, &d.holds, &d.actions, &d.plans, &d.planKeys,
		&d.queue, &d.claims, &d.limits,
		&d.scopes, &d.leases, &d.streams, &d.streamKeys, &d.entries,
	}
}

func (t *tables) overlay() *tables {
	over := &tables{core: t.core, base: t, data: data{log: t.log}}
	below := t.tables()
	for i, table := range over.tables() {
		table.over(below[i])
	}
	return over
}

// commit makes an overlay's changes the committed state, and wakes callers that wait for them.
func (t *tables) commit() {
	for id := range t.sessions.rows {
		t.base.wake(topic{id: id})
	}
	for id, row := range t.streams.rows {
		t.base.wake(topic{id: id})
		if row != nil {
			t.base.wake(topic{id: row.Session})
		}
	}
	for key, row := range t.leases.rows {
		if row == nil {
			t.base.freed(key)
		}
	}
	t.base.wake(topic{claims: true})
	t.base.unsealed = append(t.base.unsealed, t.unsealed...)
	for _, table := range t.tables() {
		table.commit()
	}
}

// editSession returns a session to be changed. Nil: there is none. The caller checks everything
// first, so that it never stops in the middle of a change.
func (t *tables) editSession(id repo.ID) *sessionRow {
	t.wake(topic{id: id})
	return edit(&t.sessions, id)
}

// taken returns the sessions with an id and with a key.
func (t *tables) taken(id repo.ID, key repo.SessionKey) (taken []*sessionRow) {
	if r := t.sessions.get(id); r != nil {
		taken = append(taken, r)
	}
	if r := named(&t.byKey, key, &t.sessions); r != nil && r.ID != id {
		taken = append(taken, r)
	}
	return taken
}

// newSession returns the row of a session that is made. Error: rules.SessionDeleted.
func (t *tables) newSession(given repo.NewSession, now time.Time) (*sessionRow, error) {
	if t.deletedIDs.get(given.ID) != nil {
		return nil, rules.SessionDeleted(given.ID)
	}
	return &sessionRow{Session: rules.StoredSession(given, now, now)}, nil
}

// namespaceRow has the ids of a namespace's sessions.
type namespaceRow struct{ ids table[repo.ID, repo.ID] }

func (r *namespaceRow) overlay() *namespaceRow { return &namespaceRow{r.ids.overlay()} }

func (r *namespaceRow) commit() { r.ids.commit() }

// sessionsIn returns the sessions of a namespace that match, in no order.
func (t *tables) sessionsIn(namespace string, matches func(*sessionRow) bool) (found []*sessionRow) {
	if in := t.namespaces.get(namespace); in != nil {
		for id := range in.ids.all() {
			if r := t.sessions.get(id); matches(r) {
				found = append(found, r)
			}
		}
	}
	return found
}

func (t *tables) putSession(r *sessionRow) {
	t.sessions.put(r.ID, r)
	if t.namespaces.get(r.Namespace) == nil {
		t.namespaces.put(r.Namespace, &namespaceRow{})
	}
	edit(&t.namespaces, r.Namespace).ids.put(r.ID, &r.ID)
}

func (t *tables) removeSession(r *sessionRow) {
	t.sessions.remove(r.ID)
	in := edit(&t.namespaces, r.Namespace)
	if in.ids.remove(r.ID); in.ids.isEmpty() {
		t.namespaces.remove(r.Namespace)
	}
	unname(&t.byKey, r.sessionKey(), r.ID)
	t.deletedIDs.put(r.ID, &r.Namespace)
	t.wake(topic{id: r.ID})
}

// action returns an action. Error: repo.NotFoundError.
func (t *tables) action(name repo.ActionName) (*repo.Action, error) {
	action := t.actions.get(name.String())
	if action == nil {
		return nil, &repo.NotFoundError{Kind: "action", Name: name.String()}
	}
	return action, nil
}

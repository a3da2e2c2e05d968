package memory

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// sessionRow is one session. Unlike the rows of other tables it is changed in place; a
// transaction changes a copy.
type sessionRow struct {
	// Session is the store's own copy, without MessageCount and Plans.
	repo.Session
	// importedAt is when it was imported: since then it is idle, however old its messages are. Zero: it was not.
	importedAt time.Time
	// fence is the latest fence that was given for the session's lease.
	fence int64
	// messages only grows, and a stored message never changes. So a transaction's
	// copy shares the array: it appends past the end that the committed row knows.
	messages []*repo.Message
	// inherited is what a fork has of other sessions: the transcript that was forked.
	inherited []*repo.Message
	// follows is what the next message follows. Nil: the one before it.
	follows *int64
	// branched: some messages do not follow the one before them.
	branched bool
	byID     table[repo.ID, repo.Message]
	// usages has the added usages, by their ids.
	usages table[repo.ID, repo.Usage]
	// turns has the turns that have a key, by that.
	turns table[string, storedTurn]
	// planIDs are the ids of the plans that the session is linked to, in order.
	// The slice is replaced, never changed.
	planIDs []repo.ID
}

// idleSince returns since when nothing was appended, nor the session imported.
func (r *sessionRow) idleSince() time.Time {
	return slices.MaxFunc([]time.Time{r.importedAt, r.UpdatedAt}, time.Time.Compare)
}

func (r *sessionRow) overlay() *sessionRow {
	copied := *r
	copied.byID, copied.usages, copied.turns = r.byID.overlay(), r.usages.overlay(), r.turns.overlay()
	return &copied
}

func (r *sessionRow) commit() {
	r.byID.commit()
	r.usages.commit()
	r.turns.commit()
}

// sessionKey returns the session's key, or a key of no session.
func (r *sessionRow) sessionKey() repo.SessionKey {
	return repo.SessionKey{Namespace: r.Namespace, Key: r.Key}
}

// snapshot returns a session in the form that callers get, without plans of other namespaces, which the whole store may
// have linked.
func (s sessions) snapshot(t *tables, r *sessionRow) repo.Session {
	session := copyOf(&r.Session)
	session.Plans = s.linkedPlans(t, r)
	session.MessageCount = r.next()
	return session
}

func (s sessions) linkedPlans(t *tables, r *sessionRow) (plans []repo.LinkedPlan) {
	for _, id := range r.planIDs {
		if plan, missing := s.plan(t, id); missing == nil {
			plans = append(plans, repo.LinkedPlan{ID: id, Namespace: plan.Namespace, Stage: plan.Stage})
		}
	}
	return plans
}

// link keeps a session's plans in the order of their ids.
func (r *sessionRow) link(planID repo.ID) {
	if at, found := slices.BinarySearchFunc(r.planIDs, planID, repo.ID.Compare); !found {
		r.planIDs = slices.Insert(slices.Clone(r.planIDs), at, planID)
	}
}

func (r *sessionRow) unlink(planID repo.ID) {
	r.planIDs = slices.DeleteFunc(slices.Clone(r.planIDs), func(id repo.ID) bool { return id == planID })
}

// stored returns the messages that are stored already, by their ids.
func (r *sessionRow) stored(messages []repo.Message) (stored []*repo.Message) {
	for i := range messages {
		if m := r.byID.get(messages[i].ID); m != nil {
			stored = append(stored, m)
		}
	}
	return stored
}

// add appends messages, which get their sequences.
func (r *sessionRow) add(messages []repo.Message) {
	for i := range messages {
		m := &messages[i]
		m.Sequence = r.next()
		m.Follows = m.Sequence - 1
		if r.follows != nil {
			m.Follows, r.follows, r.branched = *r.follows, nil, true
		}
		r.messages = append(r.messages, m)
		r.byID.put(m.ID, m)
	}
}

// addUsage adds a usage, with which the session has sum.
func (r *sessionRow) addUsage(add repo.NewUsage, sum repo.Usage) {
	r.Usage = sum
	r.usages.put(add.ID, &repo.Usage{InputTokens: add.InputTokens, OutputTokens: add.OutputTokens, Cost: add.Cost})
}

// touch notes that the session was active. UpdatedAt stays if it is later: an import may
// have set it ahead of the clock.
func (r *sessionRow) touch(now time.Time) {
	if now.After(r.UpdatedAt) {
		r.UpdatedAt = now
	}
}

// compareActivity orders sessions by UpdatedAt, then ID.
func compareActivity(a, b *sessionRow) int {
	return cmp.Or(a.UpdatedAt.Compare(b.UpdatedAt), a.ID.Compare(b.ID))
}

// compareAge orders sessions by CreatedAt, then ID.
func compareAge(a, b *sessionRow) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), a.ID.Compare(b.ID))
}

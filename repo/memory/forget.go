package memory

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/removal"
)

// forgetter forgets a person, as PlanForget and its neighbours in queries/removal.sql do.
type forgetter struct {
	*tables
	removal.Person
	removal.Forgotten
}

func (r remover) Forget(ctx context.Context, person removal.Person) (removal.Forgotten, error) {
	return run(ctx, r.write, func(t *tables) (removal.Forgotten, error) {
		f := forgetter{tables: t, Person: person}
		for _, id := range t.withImported(person.Sessions) {
			if t.heldMessages(id) {
				return f.Forgotten, rules.HeldMessages(id)
			}
			isKept := t.kept(id) > 0
			f.Texts += t.replaceMessages(id, func(m *repo.Message) bool {
				return isKept && (m.Kind != repo.KindRedacted || m.CallID != "" || rules.IsRedaction(*m))
			}, func(m repo.Message) repo.Message {
				m.CallID = ""
				return rules.Redacted(m)
			})
		}
		for _, name := range person.Names {
			f.forgetPlans(name)
			f.forgetClaims(name)
			f.forgetLeases(name)
			f.forgetActions(name)
			f.Streams += int64(t.expireStreams(func(row *streamRow) bool {
				namespace, _ := rules.SplitView(row.Key)
				return row.Owner == name && f.in(namespace)
			}))
			f.forgetQuarantine(name)
		}
		f.forgetEntries()
		return f.Forgotten, nil
	})
}

// in reports whether the person is forgotten in a namespace.
func (f *forgetter) in(namespace string) bool {
	return len(f.Namespaces) == 0 || slices.Contains(f.Namespaces, cmp.Or(namespace, repo.DefaultNamespace))
}

func (f *forgetter) forgetPlans(name string) {
	for _, r := range f.plans.where(func(r *planRow) bool {
		return f.in(r.Namespace) && slices.ContainsFunc(r.events, func(e repo.PlanEvent) bool { return e.Actor == name })
	}) {
		if f.heldPlan(r) {
			f.Held++
		} else {
			f.forgetPlan(r, name)
		}
	}
}

func (f *forgetter) forgetClaims(name string) {
	for id, c := range f.claims.all() {
		if c.owner == name && f.in(f.plans.get(id).Namespace) {
			f.claims.put(id, &claimRow{plan: c.plan, owner: "erased"})
		}
	}
}

// forgetLeases removes leases whose keys have the name, unless they are held.
func (f *forgetter) forgetLeases(name string) {
	now := f.now()
	for key, l := range f.leases.all() {
		namespace, named := rules.SplitView(key.Name)
		switch {
		case named != name && rules.WithoutSlot(named) != name || !f.in(namespace):
		case l.ExpiresAt.After(now):
			f.Named++
		default:
			f.leases.remove(key)
		}
	}
}

func (f *forgetter) forgetActions(name string) {
	for key, a := range f.actions.all() {
		if !f.in(a.Name.Namespace) {
			continue
		}
		changed, forgotten := *a, false
		for _, actor := range []*string{
			&changed.CreatedBy, &changed.StrategyActor, &changed.ExecutionActor, &changed.ReviewActor, &changed.ApplyActor,
			&changed.EstimationActor, &changed.InvariantActor,
		} {
			if *actor == name {
				*actor, forgotten = "", true
			}
		}
		if forgotten {
			changed.Version++
			f.actions.put(key, &changed)
			f.Actions++
		}
	}
}

func (f *forgetter) forgetQuarantine(name string) {
	quoted, _ := json.Marshal(name) //nolint:errchkjson // it marshals all texts
	maps.DeleteFunc(f.log.quarantine, func(key poisonKey, _ auditlog.Poison) bool {
		var e struct{ Namespace string }
		_ = json.Unmarshal([]byte(key.document), &e) // it may be no JSON
		found := bytes.Contains([]byte(key.document), quoted) && f.in(e.Namespace)
		if found {
			f.Quarantined++
		}
		return found
	})
}

func (f *forgetter) forgetEntries() {
	for id, e := range f.entries.all() {
		about := slices.Contains(f.Plans, e.PlanID) || slices.Contains(f.Sessions, e.SessionID)
		named := f.in(e.Namespace) && slices.ContainsFunc(f.Names, func(name string) bool {
			return name == e.Actor || name == e.User || name == e.Project
		})
		if !about && !named {
			continue
		}
		erased, changed := rules.EraseEntry(*e, f.Names, about)
		switch {
		case f.log.held(e):
			f.Held++
		case changed:
			f.Entries++
			f.entries.put(id, &erased)
		}
	}
}

func (f *forgetter) forgetPlan(r *planRow, name string) {
	changed := &planRow{Plan: r.Plan, events: slices.Clone(r.events), fence: r.fence}
	busy := rules.IsOpen(r.Plan)
	made := slices.ContainsFunc(r.events, func(e repo.PlanEvent) bool {
		return e.Actor == name && e.Transition == repo.TransitionUse
	})
	used := made && !busy
	var ran, failed, cancelled bool
	for i := range changed.events {
		e := &changed.events[i]
		by := e.Actor == name
		ran = ran || by && e.Transition == repo.TransitionStart
		if e.To.State == repo.PlanErrored {
			failed = by
		}
		if e.To.State == repo.PlanCancelled {
			cancelled = by
		}
		if !by && (!used || e.Reason == "" || e.Reason == "erased") || busy && e.Transition == repo.TransitionUse {
			continue
		}
		f.Events++
		if by {
			e.Actor = ""
		}
		if e.Reason != "" {
			e.Reason = "erased"
		}
	}
	if busy && made {
		f.Live++
	}
	if failed || cancelled || !busy && (made || ran) {
		f.Altered++
	}
	if failed || used {
		changed.ErrorDetails = nil
		if r.ErrorMessage != "" {
			changed.ErrorMessage = "erased"
		}
	}
	if (cancelled || used) && r.CancelReason != "" {
		changed.CancelReason = "erased"
	}
	if !busy && (made || ran) {
		changed.LastCheckpointID = ""
	}
	if used {
		unname(&f.planKeys, keyOfPlan(r.SessionID, r.Namespace, r.Key), r.ID)
		changed.Name, changed.Key, changed.Description, changed.DefinitionOfDone, changed.Trace = "", "", "", "", ""
		changed.AutomationProfile, changed.AutomationProfileSource, changed.AutomationSnapshot = "", "", json.RawMessage(`{}`)
		changed.Projects, changed.Arguments, changed.Invariants = []repo.ProjectLink{}, []repo.ArgumentValue{},
			[]repo.PlanInvariant{}
	}
	f.putPlan(changed)
}

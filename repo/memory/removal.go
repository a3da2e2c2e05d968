package memory

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/removal"
)

// remover is removal.Store. It is not for transactions: its tables are the committed ones.
type remover struct{ *handle }

func (r remover) RemoveTurns(ctx context.Context, _, before time.Time, limit int, dryRun bool) (removed, held int64, next time.Time, err error) {
	if _, err := rules.CheckStreamRemoval(limit); err != nil {
		return 0, 0, next, err
	}
	err = exec(ctx, r.write, func(t *tables) error {
		for _, s := range t.sessions.all() {
			for id, turn := range s.turns.all() {
				switch {
				case !turn.at.Before(before):
				case t.held(s.Namespace, s.Owner, s.ID):
					held++
				default:
					removed++
					if !dryRun {
						s.turns.remove(id)
					}
				}
			}
		}
		return nil
	})
	return removed, held, next, err
}

func (r remover) Idle(ctx context.Context, since map[string]time.Time) (sessions int64, longest time.Duration, err error) {
	err = exec(ctx, r.read, func(t *tables) error {
		for _, s := range t.sessions.all() {
			at, is := since[s.Namespace]
			if is && s.idleSince().Before(at.Truncate(time.Minute)) && !t.held(s.Namespace, s.Owner, s.ID) && t.inUse(s) == "" {
				sessions++
				longest = max(longest, at.Sub(s.UpdatedAt))
			}
		}
		return nil
	})
	return min(sessions, 10_001), longest, err
}

func (r remover) Forget(ctx context.Context, person removal.Person) (removal.Forgotten, error) {
	return run(ctx, r.write, func(t *tables) (f removal.Forgotten, err error) {
		for _, id := range t.withImported(person.Sessions) {
			if t.heldMessages(id) {
				return f, rules.HeldMessages(id)
			}
			f.Texts += t.forgetMessages(id)
		}
		in := func(namespace string) bool {
			return len(person.Namespaces) == 0 || slices.Contains(person.Namespaces, cmp.Or(namespace, repo.DefaultNamespace))
		}
		for _, name := range person.Names {
			t.forgetName(name, in, &f)
		}
		for id, e := range t.entries.all() {
			about := slices.Contains(person.Plans, e.PlanID) || slices.Contains(person.Sessions, e.SessionID)
			named := in(e.Namespace) && slices.ContainsFunc(person.Names, func(name string) bool { return name == e.Actor || name == e.User || name == e.Project })
			if !about && !named {
				continue
			}
			erased, changed := rules.EraseEntry(*e, person.Names, about)
			if _, held := t.log.holds[heldSubject{plan: e.PlanID}]; held {
				f.Held++
			} else if _, held := t.log.holds[heldSubject{session: e.SessionID}]; held {
				f.Held++
			} else if changed {
				f.Entries++
				t.entries.put(id, &erased)
			}
		}
		return f, nil
	})
}

// forgetName does what PlanForget and its neighbours in queries/removal.sql do.
func (t *tables) forgetName(name string, in func(namespace string) bool, f *removal.Forgotten) {
	for _, r := range t.plans.where(func(r *planRow) bool {
		return in(r.Namespace) && slices.ContainsFunc(r.events, func(e repo.PlanEvent) bool { return e.Actor == name })
	}) {
		if t.heldPlan(r) {
			f.Held++
			continue
		}
		t.forgetPlan(r, name, f)
	}
	for id, c := range t.claims.all() {
		if c.owner == name && in(t.plans.get(id).Namespace) {
			t.claims.put(id, &claimRow{plan: c.plan, owner: "erased"})
		}
	}
	now := t.now()
	for key, l := range t.leases.all() {
		if namespace, named := rules.SplitView(key.Name); named != name && rules.WithoutSlot(named) != name || !in(namespace) {
			continue
		}
		if l.ExpiresAt.After(now) {
			f.Named++
			continue
		}
		t.leases.remove(key)
	}
	for key, a := range t.actions.all() {
		if parsed, err := repo.ParseActionName(key); err != nil || !in(parsed.Namespace) {
			continue
		}
		changed, forgotten := copyAction(a), false
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
			t.actions.put(key, &changed)
			f.Actions++
		}
	}
	f.Streams += int64(t.expireStreams(func(row *streamRow) bool {
		namespace, _ := rules.SplitView(row.Key)
		return row.Owner == name && in(namespace)
	}))
	quoted, err := json.Marshal(name)
	if err != nil { // it marshals all texts
		return
	}
	maps.DeleteFunc(t.log.quarantine, func(key poisonKey, _ auditlog.Poison) bool {
		var e struct{ Namespace string }
		_ = json.Unmarshal([]byte(key.document), &e) // it may be no JSON
		found := bytes.Contains([]byte(key.document), quoted) && in(e.Namespace)
		if found {
			f.Quarantined++
		}
		return found
	})
}

func (t *tables) forgetPlan(r *planRow, name string, f *removal.Forgotten) {
	changed := &planRow{Plan: copyPlan(r.Plan), events: slices.Clone(r.events), fence: r.fence}
	busy := rules.IsOpen(r.Plan)
	made := slices.ContainsFunc(r.events, func(e repo.PlanEvent) bool { return e.Actor == name && e.Transition == repo.TransitionUse })
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
		if r.Key != "" {
			t.planKeys.remove(keyOfPlan(r.SessionID, r.Namespace, r.Key))
		}
		changed.Name, changed.Key, changed.Description, changed.DefinitionOfDone, changed.Trace = "", "", "", "", ""
		changed.AutomationProfile, changed.AutomationProfileSource, changed.AutomationSnapshot = "", "", json.RawMessage(`{}`)
		changed.Projects, changed.Arguments, changed.Invariants = []repo.ProjectLink{}, []repo.ArgumentValue{}, []repo.PlanInvariant{}
	}
	t.putPlan(changed)
}

func (t *tables) heldMessages(id repo.ID) bool {
	return len(t.sessions.where(func(s *sessionRow) bool {
		return (s.ID == id || s.hasOf(id)) && t.held(s.Namespace, s.Owner, s.ID)
	})) > 0
}

// hasOf reports whether a fork has messages of a session.
func (r *sessionRow) hasOf(id repo.ID) bool {
	return slices.ContainsFunc(r.inherited, func(m *repo.Message) bool { return m.SessionID == id })
}

func isErased(m *repo.Message) bool {
	return m.Content == "erased" && string(m.Metadata) == "{}" && m.Payload == nil && m.Kind+m.CallID+m.Counter == "" && m.Tokens == 0
}

// forgetMessages replaces those messages of a session that its forks have, and returns their number.
func (t *tables) forgetMessages(id repo.ID) int64 {
	erased := map[*repo.Message]*repo.Message{}
	for forkID, fork := range t.sessions.all() {
		if !fork.hasOf(id) {
			continue
		}
		fork = t.editSession(forkID)
		fork.inherited = slices.Clone(fork.inherited)
		for i, m := range fork.inherited {
			if m.SessionID != id || isErased(m) {
				continue
			}
			if erased[m] == nil {
				erased[m] = &repo.Message{
					SessionID: m.SessionID, ID: m.ID, Sequence: m.Sequence, Role: m.Role, Content: "erased", Metadata: json.RawMessage(`{}`), OccurredAt: m.OccurredAt,
					CreatedAt: m.CreatedAt, Follows: m.Follows,
				}
			}
			fork.inherited[i] = erased[m]
		}
	}
	if parent := t.editSession(id); parent != nil {
		parent.messages = slices.Clone(parent.messages)
		for i, m := range parent.messages {
			if erased[m] != nil {
				parent.messages[i] = erased[m]
			}
		}
	}
	return int64(len(erased))
}

// withImported adds the ids of what came with imports of forks.
func (t *tables) withImported(sessions []repo.ID) []repo.ID {
	all := slices.Clone(sessions)
	for _, s := range t.sessions.all() {
		for _, m := range s.inherited {
			if of := t.importers.get(m.SessionID); of != nil && slices.Contains(sessions, *of) && !slices.Contains(all, m.SessionID) {
				all = append(all, m.SessionID)
			}
		}
	}
	return all
}

func (r remover) Kept(ctx context.Context, sessions []repo.ID) (own, all int64, err error) {
	err = exec(ctx, r.read, func(t *tables) error {
		for i, id := range t.withImported(sessions) {
			kept := t.kept(id)
			if all += kept; i < len(sessions) {
				own += kept
			}
		}
		return nil
	})
	return own, all, err
}

// Left: nobody is at it for longer than a call.
func (r remover) Left(ctx context.Context) (bool, error) {
	return false, exec(ctx, r.read, func(*tables) error { return nil })
}

func (r remover) HeldFork(ctx context.Context, owner string, namespaces []string) (repo.ID, error) {
	return run(ctx, r.read, func(t *tables) (repo.ID, error) {
		for _, s := range t.sessions.all() {
			if s.Owner == owner && owner != "" && slices.Contains(namespaces, s.Namespace) && slices.ContainsFunc(t.withImported([]repo.ID{s.ID}), t.heldMessages) {
				return s.ID, nil
			}
		}
		return repo.ID{}, nil
	})
}

func (r remover) Made(ctx context.Context, sessions []repo.ID) ([]repo.ID, error) {
	return run(ctx, r.read, func(t *tables) (made []repo.ID, err error) {
		for _, p := range t.plans.where(func(p *planRow) bool { return !p.SessionID.IsZero() && slices.Contains(sessions, p.SessionID) }) {
			made = append(made, p.ID)
		}
		for i := 0; i < len(made); i++ {
			for _, p := range t.plans.where(func(p *planRow) bool { return p.ParentID == made[i] && !slices.Contains(made, p.ID) }) {
				made = append(made, p.ID)
			}
		}
		return made, nil
	})
}

func (r remover) Judge(ctx context.Context, sessions []repo.ID) ([]removal.Judgement, error) {
	return run(ctx, r.read, func(t *tables) (judged []removal.Judgement, err error) {
		for _, id := range sessions {
			if s := t.sessions.get(id); s != nil {
				judged = append(judged, removal.Judgement{ID: id, Held: t.held(s.Namespace, s.Owner, id), InUse: t.inUse(s) != "", Inherited: s.base()})
			}
		}
		return judged, nil
	})
}

// inUse says by what a session is in use.
func (t *tables) inUse(r *sessionRow) rules.InUse {
	now := t.now()
	open := func(p *planRow) bool { return rules.IsOpen(p.Plan) }
	for _, id := range r.planIDs {
		if slices.ContainsFunc(t.below(t.plans.get(t.plans.get(id).RootID)), open) {
			return rules.InUseByPlan
		}
	}
	if lease := t.leases.get(repo.LeaseKey{Kind: repo.LeaseOfSession, Name: r.ID.String()}); lease != nil && lease.ExpiresAt.After(now) {
		return rules.InUseByLease
	}
	if len(t.streams.where(func(s *streamRow) bool {
		return s.Session == r.ID && s.Status == repo.StreamOpen && s.ExpiresAt.After(now)
	})) > 0 {
		return rules.InUseByStream
	}
	return ""
}

func (r remover) Namespaces(ctx context.Context) ([]string, error) {
	return run(ctx, r.read, func(t *tables) ([]string, error) {
		found := map[string]bool{}
		for _, s := range t.sessions.all() {
			found[s.Namespace] = true
		}
		for key := range t.leases.all() {
			namespace, _ := rules.SplitView(key.Name)
			found[namespace] = true
		}
		for scope := range t.scopes.all() {
			if scope.Name != "" {
				namespace, _ := rules.SplitView(scope.Name)
				found[namespace] = true
			}
		}
		delete(found, limits.ShardMapNamespace)
		return slices.Sorted(maps.Keys(found)), nil
	})
}

func (r remover) Names(ctx context.Context, after removal.Name) (names []removal.Name, err error) {
	found := map[removal.Name]bool{}
	err = exec(ctx, r.read, func(t *tables) error {
		add := func(names ...string) {
			for _, name := range names {
				found[removal.Name{Name: name}] = true
			}
		}
		for scope := range t.scopes.all() {
			if _, name := rules.SplitView(scope.Name); name != "" {
				found[removal.Name{Scope: true, Name: name}] = true
			}
		}
		for _, s := range t.sessions.all() {
			add(s.Owner, s.Actor)
		}
		for key, l := range t.leases.all() {
			_, name := rules.SplitView(key.Name)
			add(l.Owner, name, rules.WithoutSlot(name))
		}
		for _, s := range t.streams.all() {
			add(s.Owner)
		}
		for _, a := range t.actions.all() {
			add(a.CreatedBy)
		}
		for _, p := range t.plans.all() {
			for _, e := range p.events {
				add(e.Actor)
			}
		}
		for _, c := range t.claims.all() {
			add(c.owner)
		}
		for _, e := range t.entries.all() {
			add(e.Actor, e.User, e.Project)
		}
		return nil
	})
	compare := func(a, b removal.Name) int {
		if a.Scope != b.Scope {
			return map[bool]int{false: -1, true: 1}[a.Scope]
		}
		return strings.Compare(a.Name, b.Name)
	}
	for name := range found {
		if name.Name != "" && compare(name, after) > 0 {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, compare)
	return names[:min(len(names), 10_000)], err
}

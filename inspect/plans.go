package inspect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// plans shows the plans of a namespace by their stage, or the plans of a session, an action or a project.
func (l *look) plans() *page {
	filter := repo.PlanFilter{
		Phase: repo.Phase(l.r.FormValue("phase")), State: repo.PlanState(l.r.FormValue("state")),
		Action: l.r.FormValue("action"), SessionID: l.given("session"),
	}
	p := &page{Title: "Plans", Current: "Plans"}
	switch {
	case !filter.SessionID.IsZero():
		p.Above = l.tabs(filter.SessionID)
	case filter.Action == "":
		filter.Namespace = l.namespace
		counts := ok(l.store.Plans().Counts(l.ctx, l.namespace, repo.Page{})).Items
		stages := l.table(section{
			Key: "stages", Title: "By stage", Empty: "The namespace " + l.namespace + " has no plans.",
		}, counts, false, "Stage.Phase Stage.State Count Oldest")
		stages.Columns[3] = "Waiting since"
		for i, c := range counts {
			if c.Count > 10_000 {
				stages.Rows[i][2].Text = "more than 10,000"
			}
			stages.Rows[i][2].Link = l.url("/plans", "phase", c.Phase, "state", c.State)
		}
		p.Sections = append(p.Sections, stages)
	}
	list := ok(l.store.Plans().List(l.ctx, filter, l.page()))
	s := l.table(section{
		Key: "plans", Title: words(cmp.Or(string(filter.State), "newest")), Next: l.next(list.Next),
		Empty: "No plan matches.", Form: l.filter("action", "state"),
	}, list.Items, false, "ID Action Stage.Phase Stage.State Attempt NotBefore SessionID UpdatedAt")
	for i, plan := range list.Items {
		s.Rows[i][0] = l.addressed("/plans/", plan.ID, plan.Name)
	}
	p.Sections = append(p.Sections, s)
	return p
}

func (l *look) plan() *page {
	id, from := l.id(), max(0, l.sequence("from"))
	plan := ok(l.store.Plans().Get(l.ctx, id))
	history := ok(l.store.Plans().History(l.ctx, id, from, pageSize))
	leases := ok(l.in(plan.Namespace).Leases().List(l.ctx, repo.LeaseFilter{Kind: repo.LeaseOfPlan, Name: id.String()},
		repo.Page{Limit: 1})).Items
	why, tree := l.why(plan, leases), &node{value: l.addressed("/plans/", id, ""), Stage: string(plan.State)}
	l.grow(tree, id, &growth{20, 200})
	shown := l.contents(plan.Namespace, plan.SessionID, id)
	about := section{Key: "plan", Title: "Plan", Note: why, Fields: l.fields(plan, shown,
		"ID Stage.State Stage.Phase Action Namespace SessionID "+
			"ParentID Attempt MaxAttempts Priority NotBefore Deadline CreatedAt UpdatedAt Version ReversionCount "+
			"LastCompletedStep LastCheckpointID Trace "+
			"*Description *DefinitionOfDone *ErrorMessage *ErrorDetails *CancelReason")}
	for _, lease := range leases {
		about.Fields = append(about.Fields, field{"Lease", holder(lease)})
	}
	if l.access.Actions && plan.Live() {
		to := l.url("/act", "do", "cancel", "plan", id, "version", plan.Version)
		about.Fields = append(about.Fields, field{"Cancel", link(to, "cancel it, and the plans below it…")})
	}
	if l.access.Actions && plan.State == repo.PlanErrored {
		about.Fields = append(about.Fields, field{"Retry", link(l.url("/act", "do", "retry", "plan", id, "version",
			plan.Version), "queue it again…")})
	}
	p := &page{Title: cmp.Or(plan.Name, "Plan"), Current: "Plans", Sections: []section{about}}
	if len(plan.Arguments) > 0 {
		p.Sections = append(p.Sections, l.table(section{Key: "arguments", Title: "Arguments"}, plan.Arguments, shown,
			"Name *Value"))
	}
	if len(tree.Children) > 0 {
		p.Sections = append(p.Sections, section{Key: "children", Title: "Children", Tree: tree})
	}
	events := l.table(section{Key: "history", Title: "History"}, history, shown,
		"Version Transition To.Phase To.State Actor *Reason CreatedAt")
	if len(history) == pageSize {
		events.Next = l.url("/plans/"+id.String(), "from", history[pageSize-1].Version+1)
	}
	p.Sections = append(p.Sections, events)
	return p
}

// node is a plan in a tree of plans.
type node struct {
	value
	Stage    string
	Children []*node
	More     string
}

// MarshalJSON implements json.Marshaler.
func (n *node) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"id": n.JSON, "state": n.Stage, "children": n.Children, "more": n.More != ""})
}

// growth bounds a tree: how many statements, and how many plans, it may have.
type growth struct{ statements, plans int }

// grow adds the children of a plan, and theirs, as far as the bounds allow.
func (l *look) grow(to *node, id repo.ID, bound *growth) {
	if bound.statements == 0 || bound.plans <= 0 {
		to.More = to.Link
		return
	}
	bound.statements--
	list := ok(l.store.Plans().List(l.ctx, repo.PlanFilter{ParentID: id}, repo.Page{Limit: min(pageSize, bound.plans)}))
	bound.plans -= len(list.Items)
	if list.Next != "" {
		to.More = to.Link
	}
	for _, child := range list.Items {
		n := &node{value: l.addressed("/plans/", child.ID, ""), Stage: string(child.State)}
		to.Children = append(to.Children, n)
		l.grow(n, child.ID, bound)
	}
}

// why says what a plan waits for.
func (l *look) why(plan repo.Plan, leases []repo.Lease) string {
	held := len(leases) > 0 && !leases[0].Expired
	utc := func(t time.Time) string { return t.UTC().Format(time.DateTime) + " UTC" }
	switch {
	case plan.State == repo.PlanProcessing && held:
		return "It is worked on by " + leases[0].Owner + ", whose lease lasts until " + utc(leases[0].ExpiresAt) + "."
	case plan.State == repo.PlanProcessing && len(leases) > 0:
		return "The lease of its worker expired at " + utc(leases[0].ExpiresAt) +
			": the next claim takes it, as another attempt."
	case plan.State == repo.PlanProcessing:
		return "It was started without a claim: the process that started it ends it."
	case plan.State != repo.PlanQueued:
		return ""
	case plan.NotBefore.After(time.Now()):
		return "It waits until it is due, at " + utc(plan.NotBefore) + "."
	case held:
		return "It waits because " + leases[0].Owner + " holds its lease, until " + utc(leases[0].ExpiresAt) + "."
	}
	for _, limit := range ok(l.in(plan.Namespace).Plans().Limits(l.ctx, repo.Page{})).Items {
		if limit.Namespace == plan.Namespace && (limit.Action == "" || limit.Action == plan.Action.String()) &&
			limit.Claimed >= limit.AtOnce {
			of := cmp.Or(limit.Action, "the whole namespace")
			return fmt.Sprintf("It waits because of the limit of %d at once of %s, of which %d are claimed.", limit.AtOnce, of,
				limit.Claimed)
		}
	}
	return "It is due, and waits for a worker that claims its action, phase and namespace."
}

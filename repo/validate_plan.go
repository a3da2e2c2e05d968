package repo

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/seed-df90f812/agentstore/internal/cursor"
	"github.com/seed-df90f812/agentstore/internal/jsonvalue"
)

// Normalize checks what can be checked of a use without its action, and returns
// it as it is stored. u itself is left alone, and shares no memory with it.
func (u UseAction) Normalize() (UseAction, error) {
	if u.ID.IsZero() {
		u.ID = NewID()
	}
	if u.Name != "" && !u.ParentID.IsZero() {
		return u, invalid("name", "is set, but a child plan has none")
	}
	for _, name := range []struct{ field, value string }{
		{"name", u.Name}, {"namespace", u.Namespace}, {"actor", u.Actor},
		{"automation_profile", u.AutomationProfile}, {"automation_profile_source", u.AutomationProfileSource},
	} {
		if err := checkName(name.field, name.value); err != nil {
			return u, err
		}
	}
	if u.AutomationProfile == "" && u.AutomationProfileSource != "" {
		return u, invalid("automation_profile_source", "is set, but the profile is not")
	}
	if u.AutomationProfile != "" && u.AutomationProfileSource == "" {
		u.AutomationProfileSource = SourcePlan
	}
	switch {
	case u.Attempt < 0 || u.Attempt > 1<<31-1:
		return u, invalid("attempt", "is not between 1 and 2^31-1")
	case u.Attempt == 0:
		u.Attempt = 1
	}
	if err := checkText("description", u.Description, MaxTextBytes); err != nil {
		return u, err
	}
	var err error
	if u.AutomationSnapshot, err = normalizeMetadata("automation_snapshot", u.AutomationSnapshot); err != nil {
		return u, err
	}
	if u.Projects, err = normalizeProjects(u.Projects); err != nil {
		return u, err
	}
	if u.Invariants, err = normalizePlanInvariants(u.Invariants); err != nil {
		return u, err
	}
	u.Arguments = slices.Clone(u.Arguments)
	for i := range u.Arguments {
		u.Arguments[i].Value = bytes.Clone(u.Arguments[i].Value)
	}
	return u, nil
}

func normalizeProjects(projects []ProjectLink) ([]ProjectLink, error) {
	if len(projects) > MaxProjects {
		return nil, invalid("projects", "has %d entries, more than %d", len(projects), MaxProjects)
	}
	normal := make([]ProjectLink, len(projects))
	for i, link := range projects {
		if link.Project == "" {
			return nil, invalid(at("projects", i)+".project", "is empty")
		}
		if link.Alias == "" {
			link.Alias = link.Project
		}
		for _, name := range []struct{ field, value string }{{"project", link.Project}, {"alias", link.Alias}} {
			if err := checkName(at("projects", i)+"."+name.field, name.value); err != nil {
				return nil, err
			}
		}
		for _, other := range normal[:i] {
			if other.Alias == link.Alias {
				return nil, invalid(at("projects", i)+".alias", "is in the list twice")
			}
		}
		normal[i] = link
	}
	return normal, nil
}

func normalizePlanInvariants(invariants []PlanInvariant) ([]PlanInvariant, error) {
	if len(invariants) > MaxInvariants {
		return nil, invalid("invariants", "has %d entries, more than %d", len(invariants), MaxInvariants)
	}
	normal := make([]PlanInvariant, len(invariants))
	for i, invariant := range invariants {
		if invariant.Source == "" {
			invariant.Source = SourcePlan
		}
		if err := checkInvariant(at("invariants", i)+".text", invariant.Text); err != nil {
			return nil, err
		}
		if err := checkName(at("invariants", i)+".source", invariant.Source); err != nil {
			return nil, err
		}
		normal[i] = invariant
	}
	return normal, nil
}

// Plan checks the use, which is normalized, against the action and returns the
// plan that it makes, all but what the database gives it: its tree (RootID,
// Depth; a child's namespace), version and times.
func (u UseAction) Plan(action Action) (Plan, error) {
	plan := Plan{
		ID:                      u.ID,
		Name:                    u.Name,
		Namespace:               u.Namespace,
		Action:                  action.Name,
		ParentID:                u.ParentID,
		RootID:                  u.ID,
		Attempt:                 u.Attempt,
		Description:             u.Description,
		Stage:                   strategizeQueued,
		Projects:                u.Projects,
		AutomationProfile:       u.AutomationProfile,
		AutomationProfileSource: u.AutomationProfileSource,
		AutomationSnapshot:      u.AutomationSnapshot,
		Version:                 1,
	}
	if plan.Namespace == "" && u.ParentID.IsZero() {
		plan.Namespace = action.Name.Namespace
	}
	if plan.Description == "" {
		plan.Description = action.Description
	}
	if plan.AutomationProfile == "" && action.AutomationProfile != "" {
		plan.AutomationProfile, plan.AutomationProfileSource = action.AutomationProfile, SourceAction
	}
	if action.ReadOnly {
		plan.Projects = make([]ProjectLink, len(u.Projects))
		for i, link := range u.Projects {
			link.ReadOnly = true
			plan.Projects[i] = link
		}
	}
	plan.Invariants = make([]PlanInvariant, 0, len(action.Invariants)+len(u.Invariants))
	for _, text := range action.Invariants {
		plan.Invariants = append(plan.Invariants, PlanInvariant{Text: text, Source: SourceAction})
	}
	plan.Invariants = append(plan.Invariants, u.Invariants...)
	var err error
	if plan.Arguments, err = action.Bind(u.Arguments); err != nil {
		return Plan{}, err
	}
	plan.DefinitionOfDone, err = action.Render(plan.Arguments)
	return plan, err
}

// Bind checks values against the arguments and returns them in their order, with
// the defaults of those that were not given. Errors: InvalidError of
// "arguments.NAME", or of "arguments[i]" for an unknown name.
func (d ActionDefinition) Bind(given []ArgumentValue) ([]ArgumentValue, error) {
	byName := make(map[string]ArgumentValue, len(given))
	for i, value := range given {
		if _, twice := byName[value.Name]; twice {
			return nil, invalid(at("arguments", i), "is in the list twice")
		}
		byName[value.Name] = value
	}
	bound := make([]ArgumentValue, 0, len(d.Arguments))
	for i := range d.Arguments {
		argument := &d.Arguments[i]
		value, found := byName[argument.Name]
		switch {
		case found:
			if _, err := argument.value(value.Value); err != nil {
				err.Field = "arguments." + argument.Name
				return nil, err
			}
			delete(byName, argument.Name)
			bound = append(bound, value)
		case argument.Default != nil:
			bound = append(bound, ArgumentValue{Name: argument.Name, Value: argument.Default})
		case argument.Required:
			return nil, invalid("arguments."+argument.Name, "is required")
		}
	}
	for i, value := range given {
		if _, unknown := byName[value.Name]; unknown {
			return nil, invalid(at("arguments", i), "is not an argument of the action")
		}
	}
	return bound, nil
}

// Conflict reports how the stored plan differs from the one that this use,
// normalized, made: nil if it does not. action is the name that was used. What
// the action said at the time is not compared: it may have changed.
func (u UseAction) Conflict(action ActionName, stored Plan) error {
	differs := func(field string) error { return &PlanConflict{ID: u.ID, Field: field} }
	switch {
	case stored.Action != action:
		return differs("action")
	case stored.Name != u.Name:
		return differs("name")
	case u.Namespace != "" && stored.Namespace != u.Namespace:
		return differs("namespace")
	case stored.ParentID != u.ParentID:
		return differs("parent_id")
	case stored.Attempt != u.Attempt:
		return differs("attempt")
	case u.Description != "" && stored.Description != u.Description:
		return differs("description")
	case u.AutomationProfile != "" && stored.AutomationProfile != u.AutomationProfile:
		return differs("automation_profile")
	case u.AutomationProfile != "" && stored.AutomationProfileSource != u.AutomationProfileSource:
		return differs("automation_profile_source")
	case !jsonvalue.Equal(u.AutomationSnapshot, stored.AutomationSnapshot):
		return differs("automation_snapshot")
	case !u.sameProjects(stored.Projects):
		return differs("projects")
	case !u.sameInvariants(stored.Invariants):
		return differs("invariants")
	case !u.sameArguments(stored.Arguments):
		return differs("arguments")
	}
	return nil
}

// sameProjects leaves ReadOnly to the action, which may have forced it.
func (u UseAction) sameProjects(stored []ProjectLink) bool {
	if len(stored) != len(u.Projects) {
		return false
	}
	for i, link := range u.Projects {
		if link.Project != stored[i].Project || link.Alias != stored[i].Alias || link.ReadOnly && !stored[i].ReadOnly {
			return false
		}
	}
	return true
}

// sameInvariants compares the last ones, which were the use's own.
func (u UseAction) sameInvariants(stored []PlanInvariant) bool {
	if len(stored) < len(u.Invariants) {
		return false
	}
	for i, invariant := range stored[len(stored)-len(u.Invariants):] {
		if invariant != u.Invariants[i] {
			return false
		}
	}
	return true
}

// sameArguments compares those that were given; others had their defaults.
func (u UseAction) sameArguments(stored []ArgumentValue) bool {
	values := make(map[string]ArgumentValue, len(stored))
	for _, value := range stored {
		values[value.Name] = value
	}
	for _, given := range u.Arguments {
		value, found := values[given.Name]
		if !found || !jsonvalue.Equal(given.Value, value.Value) {
			return false
		}
	}
	return true
}

// Normalize checks a transition and its cause, and returns the cause as it is
// stored.
func (c Cause) Normalize(transition Transition) (Cause, error) {
	if _, known := lifecycle[transition]; !known {
		return c, invalid("transition", "is not start, complete, fail, execute, apply, constrain, revert, resume or cancel")
	}
	if c.Version < 0 {
		return c, invalid("version", "is negative")
	}
	if err := checkName("actor", c.Actor); err != nil {
		return c, err
	}
	if err := checkText("reason", c.Reason, MaxTextBytes); err != nil {
		return c, err
	}
	if c.Reason == "" && (transition == TransitionFail || transition == TransitionCancel) {
		return c, invalid("reason", "is empty")
	}
	if c.Details == nil {
		return c, nil
	}
	if transition != TransitionFail {
		return c, invalid("details", "are set, but only a failure has them")
	}
	var err error
	c.Details, err = normalizeMetadata("details", c.Details)
	return c, err
}

// Moved returns the plan as the transition leaves it, with the next version, and
// false when it stays as it is. The cause is normalized. All implementations use
// it, so that they cannot differ. What it leaves to them are the times, the
// descendants of a cancelled plan and the parent (NeedsLiveParent). Errors: TransitionConflict, LimitExceeded.
func (p Plan) Moved(transition Transition, cause Cause) (_ Plan, moves bool, _ error) {
	to, allowed := transition.To(p.Stage)
	if allowed && to == p.Stage { // whatever version the caller knows
		return p, false, nil
	}
	if !allowed || cause.Version != 0 && cause.Version != p.Version {
		return p, false, p.Refuse(transition)
	}
	if transition == TransitionRevert {
		if p.ReversionCount >= MaxReversions {
			return p, false, &LimitExceeded{Kind: "reversions", ID: p.ID, Limit: MaxReversions}
		}
		p.ReversionCount++
	}
	p.Stage = to
	p.Version++
	switch to.State {
	case StateErrored:
		p.ErrorMessage, p.ErrorDetails = cause.Reason, cause.Details
		p.CancelledAt, p.CancelReason = time.Time{}, ""
	case StateCancelled:
		p.CancelReason = cause.Reason // the error it may stand at stays
	default:
		p.ErrorMessage, p.ErrorDetails = "", nil
		p.CancelledAt, p.CancelReason = time.Time{}, ""
	}
	return p, true, nil
}

// Refuse is the error of a transition that cannot be made of the plan as it is.
func (p Plan) Refuse(transition Transition) *TransitionConflict {
	return &TransitionConflict{PlanID: p.ID, Transition: transition, Stage: p.Stage, Version: p.Version}
}

// NeedsLiveParent reports whether the transition would bring the plan back to
// life below a parent, which then must be live: otherwise a cancelled tree would
// have a live plan in it. Plan p is where it is before the transition.
func (p Plan) NeedsLiveParent(transition Transition) bool {
	to, allowed := transition.To(p.Stage)
	return allowed && !p.Live() && to.Live() && !p.ParentID.IsZero()
}

// RefuseChild is the error of a transition of a child of p that p, which is not
// live, does not allow.
func (p Plan) RefuseChild(child ID, transition Transition) *TransitionConflict {
	conflict := p.Refuse(transition)
	conflict.Child = child
	return conflict
}

// Validate checks the progress.
func (p Progress) Validate() error {
	if p.CompletedStep != nil && *p.CompletedStep < 0 {
		return invalid("completed_step", "is negative")
	}
	if p.CheckpointID != nil {
		return checkName("checkpoint_id", *p.CheckpointID)
	}
	return nil
}

// Normalize checks the filter and gives the empty namespace its meaning.
func (f PlanFilter) Normalize() (PlanFilter, error) {
	narrow := 0
	for _, set := range []bool{!f.SessionID.IsZero(), !f.ParentID.IsZero(), f.Project != ""} {
		if set {
			narrow++
		}
	}
	if narrow > 1 {
		return f, invalid("filter", "has more than one of session, parent and project")
	}
	if f.Namespace == "" && narrow == 0 {
		f.Namespace = DefaultNamespace
	}
	for _, name := range []struct{ field, value string }{{"namespace", f.Namespace}, {"project", f.Project}} {
		if err := checkName(name.field, name.value); err != nil {
			return f, err
		}
	}
	for _, stage := range f.Stages() {
		if stage.Valid() {
			return f, nil
		}
	}
	return f, invalid("filter", "has a phase or state that does not exist, or not together")
}

// Stages are those that the filter selects.
func (f PlanFilter) Stages() []Stage {
	var stages []Stage
	for _, stage := range Stages() {
		if (f.Phase == "" || f.Phase == stage.Phase) && (f.State == "" || f.State == stage.State) {
			stages = append(stages, stage)
		}
	}
	return stages
}

func (f PlanFilter) cursorFilter() []string {
	return []string{
		"plans", f.Namespace, string(f.Phase), string(f.State), f.SessionID.String(), f.ParentID.String(), f.Project,
	}
}

// CursorAfter is the cursor of a page of this list, normalized, that ended with
// last.
func (f PlanFilter) CursorAfter(last ID) Cursor {
	return Cursor(cursor.EncodeName(string(last[:]), f.cursorFilter()...))
}

// Place reads a cursor of this list, normalized: the page has the plans with
// smaller ids. An empty cursor is the place before the newest plan.
func (f PlanFilter) Place(after Cursor) (ID, error) {
	if after == "" {
		return lastID, nil
	}
	name, err := cursor.DecodeName(string(after), f.cursorFilter()...)
	if err != nil || len(name) != len(ID{}) {
		return ID{}, invalid("page.after", "%s", cursorFault(err))
	}
	return ID([]byte(name)), nil
}

func cursorFault(err error) string {
	if err == nil {
		return "is not a cursor that a page returned"
	}
	return err.Error()
}

// lastID is the largest: no ULID is made with it.
var lastID = ID([]byte(strings.Repeat("\xff", len(ID{}))))

// Normalize checks the filter and gives the empty namespace its meaning.
func (f ActionFilter) Normalize() (ActionFilter, error) {
	if f.Namespace == "" {
		f.Namespace = DefaultNamespace
	}
	if f.Server != "" && !isNamePart(f.Server) {
		return f, invalid("server", namePartRule)
	}
	if !isNamePart(f.Namespace) {
		return f, invalid("namespace", namePartRule)
	}
	switch f.State {
	case "", ActionAvailable, ActionArchived:
	default:
		return f, invalid("state", "is not available or archived")
	}
	return f, checkName("tag", f.Tag)
}

func (f ActionFilter) cursorFilter() []string {
	return []string{"actions", f.Server, f.Namespace, string(f.State), f.Tag}
}

// CursorAfter is the cursor of a page of this list, normalized, that ended with
// the action of this name.
func (f ActionFilter) CursorAfter(last string) Cursor {
	return Cursor(cursor.EncodeName(last, f.cursorFilter()...))
}

// Place reads a cursor of this list, normalized: the page has the actions with
// larger names. An empty cursor is the place before the first.
func (f ActionFilter) Place(after Cursor) (string, error) {
	if after == "" {
		return "", nil
	}
	name, err := cursor.DecodeName(string(after), f.cursorFilter()...)
	if err != nil {
		return "", invalid("page.after", "%s", err)
	}
	return name, nil
}

package rules

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

// NormalizeClaim checks a claim, replaces defaults, and returns it with lists of its own,
// which have no value twice. No phase stands for all of them; no action stays so.
func NormalizeClaim(view string, c repo.Claim) (repo.Claim, error) {
	err := cmp.Or(
		invalidIf(c.Owner == "", "owner", "is empty"),
		checkNames(name{"owner", c.Owner}),
		invalidIf(c.AllNamespaces && len(c.Namespaces) > 0, "namespaces", "are set, but all are asked for"),
		normalizeClaimNames(view, "namespaces", &c.Namespaces),
		normalizeClaimActions(view, &c.Actions, c.AllNamespaces),
		normalizeClaimPhases(&c.Phases),
		invalidIf(c.Limit < 0 || c.Limit > limits.MaxClaimedPlans, "limit", "is not between 1 and %d",
			limits.MaxClaimedPlans),
		invalidIf(c.Finish < 0, "finish", "is negative"),
	)
	if err != nil {
		return c, err
	}
	if len(c.Namespaces)*max(1, len(c.Actions)) > limits.MaxClaimLanes {
		return c, invalid("namespaces", "and actions have more than %d combinations", limits.MaxClaimLanes)
	}
	if c.AllNamespaces = c.AllNamespaces && view == ""; c.AllNamespaces {
		c.Namespaces = nil
	}
	for i := range c.Namespaces {
		if err := MadeInView(view, at("namespaces", i), &c.Namespaces[i]); err != nil {
			return c, err
		}
	}
	c.Limit = cmp.Or(c.Limit, 1)
	c.TTL, err = NormalizeTTL(c.TTL)
	return c, err
}

func normalizeClaimNames(view, field string, names *[]string) error {
	if err := checkEntries(field, len(*names), limits.MaxClaimLanes); err != nil {
		return err
	}
	normal := slices.Clone(*names)
	if len(normal) == 0 {
		normal = []string{cmp.Or(view, repo.DefaultNamespace)}
	}
	for i, value := range normal {
		if err := cmp.Or(invalidIf(value == "", at(field, i), "is empty"),
			checkNames(name{at(field, i), value})); err != nil {
			return err
		}
	}
	slices.Sort(normal)
	*names = slices.Compact(normal)
	return nil
}

// normalizeClaimActions has a name that is bare, in a claim of all namespaces, stand for the plans' own actions, too:
// "/name".
func normalizeClaimActions(view string, actions *[]string, all bool) error {
	if err := checkEntries("actions", len(*actions), limits.MaxClaimLanes); err != nil {
		return err
	}
	normal := make([]string, len(*actions))
	for i, text := range *actions {
		action, err := repo.ParseActionName(actionInView(view, text))
		if err != nil {
			return within(at("actions", i)+".", err)
		}
		if normal[i] = action.String(); all && view == "" && text == action.Name {
			normal = append(normal, "/"+text)
		}
	}
	slices.Sort(normal)
	*actions = slices.Compact(normal)
	return nil
}

func normalizeClaimPhases(phases *[]repo.Phase) error {
	normal := slices.Clone(*phases)
	if len(normal) == 0 {
		normal = slices.Clone(allPhases)
	}
	for i, phase := range normal {
		if !slices.Contains(allPhases, phase) {
			return invalid(at("phases", i), "is not strategize, execute or apply")
		}
	}
	slices.Sort(normal)
	*phases = slices.Compact(normal)
	return nil
}

// NormalizeLimit checks a limit, and returns it as it is stored.
func NormalizeLimit(view string, l repo.PlanLimit) (repo.PlanLimit, error) {
	err := MadeInView(view, "namespace", &l.Namespace)
	l.Namespace = cmp.Or(l.Namespace, repo.DefaultNamespace)
	err = cmp.Or(
		err,
		checkNames(name{"namespace", l.Namespace}),
		invalidIf(l.AtOnce > limits.MaxAtOnce, "at_once", "is more than %d", limits.MaxAtOnce),
	)
	if err != nil || l.Action == "" {
		return l, err
	}
	action, err := repo.ParseActionName(actionInView(view, l.Action))
	l.Action = action.String()
	return l, err
}

// CheckSweep checks the limit of a sweep, and replaces zero by the default.
func CheckSweep(limit int) (int, error) {
	return limitOf(limit, limits.DefaultSweep, limits.MaxSweep)
}

// IsBusy reports whether a plan is queued or processing, so that it cannot be deleted.
func IsBusy(p repo.Plan) bool {
	return p.State == repo.PlanQueued || p.State == repo.PlanProcessing
}

// IsOpen reports whether a plan has work to come: it is busy, or complete and waits until its next phase is begun.
// It is never deleted for its age, nor is its session.
func IsOpen(p repo.Plan) bool {
	return IsBusy(p) || p.State == repo.PlanComplete
}

// PlanIsBusy is the error of deleting a plan because of a busy one.
func PlanIsBusy(id repo.ID) error {
	return &repo.RefusedError{Kind: "plan", ID: id, Reason: "is queued or processing, or waits for its next phase"}
}

// DeletedDetails returns the details of the audit entry that says that a plan was deleted.
func DeletedDetails(p repo.Plan) json.RawMessage {
	return fmt.Appendf(nil, `{"entity":"plan","action":"%s","stage":"%s/%s","version":%d}`, p.Action, p.Phase, p.State,
		p.Version)
}

// DeadlineOf returns the deadline of a new plan: its age counts since it is due.
func DeadlineOf(p repo.Plan, age time.Duration) time.Time {
	if due := p.NotBefore; age > 0 && due.After(p.CreatedAt) {
		return later(due, age)
	}
	return later(p.CreatedAt, age)
}

// later returns a deadline after a while. None is in the year 10,000.
func later(at time.Time, after time.Duration) time.Time {
	if at = at.Add(after.Truncate(time.Microsecond)); after == 0 || !at.Before(endOfTime) {
		return time.Time{}
	}
	return at
}

// Overdue returns a plan that is queued after its deadline as it is errored, and why.
func Overdue(p repo.Plan) (_ repo.Plan, reason string) {
	p.Version++
	p.State, p.NotBefore, p.ErrorMessage = repo.PlanErrored, time.Time{}, "was queued until its deadline"
	return p, p.ErrorMessage
}

// LimitList checks a page of limits, which are ordered by namespace and action. A view's limits are another list.
func LimitList(view string, page repo.Page) (List[struct{}, repo.PlanLimit, repo.PlanLimit], error) {
	placeOf := func(last repo.PlanLimit) repo.PlanLimit {
		return repo.PlanLimit{Namespace: last.Namespace, Action: last.Action}
	}
	return newList(nil, struct{}{}, page, repo.PlanLimit{}, placeOf, InView(view, "plan limits"))
}

// CannotWait is the error of waiting for plans or a lease in a transaction.
func CannotWait() error {
	return invalid("wait", "is set in a transaction, which would wait for other transactions")
}

// SelectsClaim reports whether a normalized claim asks for plans of a namespace, a phase and an action.
func SelectsClaim(c repo.Claim, namespace string, phase repo.Phase, action string) bool {
	own, _ := strings.CutPrefix(action, namespace) // see normalizeClaimActions
	return (c.AllNamespaces || slices.Contains(c.Namespaces, namespace)) && slices.Contains(c.Phases, phase) &&
		(len(c.Actions) == 0 || slices.Contains(c.Actions, action) ||
			strings.HasPrefix(own, "/") && slices.Contains(c.Actions, own))
}

// Expired returns the plan as it is when its claim has expired, and why, without the owner's name:
// it is queued for another attempt, or errored after the last one.
func Expired(p repo.Plan) (_ repo.Plan, reason string) {
	reason = fmt.Sprintf("the claim expired in attempt %d", p.Attempt)
	p.Version++
	if p.Attempt >= p.MaxAttempts {
		reason = fmt.Sprintf("%s of %d", reason, p.MaxAttempts)
		p.State, p.ErrorMessage, p.ErrorDetails = repo.PlanErrored, reason, nil
		return p, reason
	}
	p.Attempt++
	p.Stage, _ = To(repo.TransitionExpire, p.Stage)
	return p, reason
}

// WaitsSince returns since when a queued plan waits: for one that is not due yet, a time to
// come.
func WaitsSince(p repo.Plan) time.Time {
	return slices.MaxFunc([]time.Time{p.NotBefore, p.UpdatedAt}, time.Time.Compare)
}

// IsDue reports whether a queued plan may be claimed at now. After its deadline it may not.
func IsDue(p repo.Plan, now time.Time) bool {
	return !WaitsSince(p).After(now) && !IsOverdue(p, now)
}

// IsOverdue reports whether a queued plan is to be errored because of its age.
func IsOverdue(p repo.Plan, now time.Time) bool {
	return p.State == repo.PlanQueued && !p.Deadline.IsZero() && !p.Deadline.After(now)
}

// NewClaimLease returns the lease of a plan that is claimed at now.
func NewClaimLease(c repo.Claim, plan repo.ID, fence int64, now time.Time) repo.Lease {
	return repo.Lease{Key: repo.PlanLease(plan), Owner: c.Owner, Fence: fence, AcquiredAt: now, ExpiresAt: now.Add(c.TTL)}
}

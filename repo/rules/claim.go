package rules

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// NormalizeClaim checks a claim, replaces defaults, and returns it with lists of its own,
// which have no value twice. No phase stands for all of them; no action stays so.
func NormalizeClaim(c repo.Claim) (repo.Claim, error) {
	err := cmp.Or(
		invalidIf(c.Owner == "", "owner", "is empty"),
		checkNames(name{"owner", c.Owner}),
		normalizeClaimNames("namespaces", &c.Namespaces),
		normalizeClaimActions(&c.Actions),
		normalizeClaimPhases(&c.Phases),
		invalidIf(c.Limit < 0 || c.Limit > repo.MaxClaimedPlans, "limit", fmt.Sprintf("is not between 1 and %d", repo.MaxClaimedPlans)),
		invalidIf(c.MaxAttempts < 0 || c.MaxAttempts > 1<<31-1, "max_attempts", "is not between 1 and 2^31-1"),
	)
	if err != nil {
		return c, err
	}
	if len(c.Namespaces)*max(1, len(c.Actions)) > repo.MaxClaimLanes {
		return c, invalid("namespaces", "and actions have more than %d combinations", repo.MaxClaimLanes)
	}
	c.Limit = cmp.Or(c.Limit, 1)
	c.MaxAttempts = cmp.Or(c.MaxAttempts, repo.DefaultMaxAttempts)
	c.TTL, err = NormalizeTTL(c.TTL)
	return c, err
}

func normalizeClaimNames(field string, names *[]string) error {
	if err := checkEntries(field, len(*names), repo.MaxClaimLanes); err != nil {
		return err
	}
	normal := slices.Clone(*names)
	if len(normal) == 0 {
		normal = []string{repo.DefaultNamespace}
	}
	for i, value := range normal {
		if err := cmp.Or(invalidIf(value == "", at(field, i), "is empty"), checkNames(name{at(field, i), value})); err != nil {
			return err
		}
	}
	slices.Sort(normal)
	*names = slices.Compact(normal)
	return nil
}

func normalizeClaimActions(actions *[]string) error {
	if err := checkEntries("actions", len(*actions), repo.MaxClaimLanes); err != nil {
		return err
	}
	normal := make([]string, len(*actions))
	for i, text := range *actions {
		action, err := repo.ParseActionName(text)
		if err != nil {
			return within(at("actions", i)+".", err)
		}
		normal[i] = action.String()
	}
	slices.Sort(normal)
	*actions = slices.Compact(normal)
	return nil
}

func normalizeClaimPhases(phases *[]repo.Phase) error {
	all := []repo.Phase{repo.PhaseStrategize, repo.PhaseExecute, repo.PhaseApply}
	normal := slices.Clone(*phases)
	if len(normal) == 0 {
		normal = all
	}
	for i, phase := range normal {
		if !slices.Contains(all, phase) {
			return invalid(at("phases", i), "is not strategize, execute or apply")
		}
	}
	slices.Sort(normal)
	*phases = slices.Compact(normal)
	return nil
}

// CannotWait is the error of waiting for plans in a transaction.
func CannotWait() error {
	return invalid("wait", "is set in a transaction, which would wait for other transactions")
}

// SelectsClaim reports whether a normalized claim asks for such plans.
func SelectsClaim(c repo.Claim, p repo.Plan) bool {
	return slices.Contains(c.Namespaces, p.Namespace) && slices.Contains(c.Phases, p.Phase) &&
		(len(c.Actions) == 0 || slices.Contains(c.Actions, p.Action.String()))
}

// Expired returns the plan as it is when the claim of an owner has expired, who claimed it
// with maxAttempts, and why: it is queued for another attempt, or errored after the last
// one.
func Expired(p repo.Plan, owner string, maxAttempts int) (_ repo.Plan, reason string) {
	reason = fmt.Sprintf("the claim of %s expired in attempt %d", owner, p.Attempt)
	p.Version++
	if p.Attempt >= maxAttempts {
		reason = fmt.Sprintf("%s of %d", reason, maxAttempts)
		p.State, p.ErrorMessage, p.ErrorDetails = repo.StateErrored, reason, nil
		return p, reason
	}
	p.Attempt++
	p.Stage, _ = To(repo.TransitionExpire, p.Stage)
	return p, reason
}

// CompareWaiting orders queued plans of a namespace by how long they have waited.
func CompareWaiting(a, b repo.Plan) int {
	return cmp.Or(a.UpdatedAt.Compare(b.UpdatedAt), a.ID.Compare(b.ID))
}

// NewClaimLease returns the lease of a plan that is claimed at now.
func NewClaimLease(c repo.Claim, plan repo.ID, token int64, now time.Time) repo.Lease {
	return repo.Lease{Key: repo.PlanLease(plan), Owner: c.Owner, Token: token, AcquiredAt: now, ExpiresAt: now.Add(c.TTL)}
}

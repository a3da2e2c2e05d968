// Package events knows the types of events of the audit trail: the ones that every store
// knows, and the ones that an application has registered in this process (package audit).
package events

import (
	"regexp"
	"slices"
	"sync"

	"github.com/seed-df90f812/agentstore/repo"
)

// The event types that every store knows.
const (
	PlanCreated       = "plan_created"
	PlanExecuted      = "plan_executed"
	PlanApplied       = "plan_applied"
	PlanCancelled     = "plan_cancelled"
	PlanErrored       = "plan_errored"
	PlanPhaseChanged  = "plan_phase_changed"
	ToolInvoked       = "tool_invoked"
	DecisionPoint     = "decision_point"
	SandboxChanged    = "sandbox_changed"
	UserApproval      = "user_approval"
	ResourceModified  = "resource_modified"
	CorrectionApplied = "correction_applied"
	ConfigChanged     = "config_changed"
	EntityDeleted     = "entity_deleted"
	SessionCreated    = "session_created"
	AuthSuccess       = "auth_success"
	AuthFailure       = "auth_failure"

	// The types of the audit trail itself.

	// AuditPruned: entries were removed.
	AuditPruned = "audit_pruned"
	// AuditGap: entries were not recorded; the details say how many.
	AuditGap = "audit_gap"
)

// registered has the types that the application has registered.
var registered sync.Map

var known = []string{
	PlanCreated, PlanExecuted, PlanApplied, PlanCancelled, PlanErrored, PlanPhaseChanged, ToolInvoked, DecisionPoint,
	SandboxChanged, UserApproval, ResourceModified, CorrectionApplied, ConfigChanged, EntityDeleted, SessionCreated,
	AuthSuccess, AuthFailure, AuditPruned, AuditGap,
}

var letters = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// Register registers an event type of the application's in this process.
// Registering it again has no effect. It is safe for concurrent use. Errors:
// InvalidError.
func Register(t string) error {
	if len(t) == 0 || len(t) > 63 {
		return &repo.InvalidError{Field: "type", Reason: "does not have 1 to 63 characters"}
	}
	if !letters.MatchString(t) {
		return &repo.InvalidError{
			Field:  "type",
			Reason: "is not lower case letters, digits and underscores that begin with a letter",
		}
	}
	registered.Store(t, nil)
	return nil
}

// Known reports whether t is known in this process.
func Known(t string) bool {
	_, is := registered.Load(t)
	return is || slices.Contains(known, t)
}

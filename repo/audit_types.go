package repo

import "sync"

// EventType is the kind of an event: at most 63 lower case letters, digits and
// underscores, beginning with a letter.
type EventType string

// The event types that every store knows.
const (
	EventPlanCreated       EventType = "plan_created"
	EventPlanExecuted      EventType = "plan_executed"
	EventPlanApplied       EventType = "plan_applied"
	EventPlanCancelled     EventType = "plan_cancelled"
	EventPlanErrored       EventType = "plan_errored"
	EventPlanPhaseChanged  EventType = "plan_phase_changed"
	EventToolInvoked       EventType = "tool_invoked"
	EventDecisionPoint     EventType = "decision_point"
	EventSandboxChanged    EventType = "sandbox_changed"
	EventUserApproval      EventType = "user_approval"
	EventResourceModified  EventType = "resource_modified"
	EventCorrectionApplied EventType = "correction_applied"
	EventConfigChanged     EventType = "config_changed"
	EventEntityDeleted     EventType = "entity_deleted"
	EventSessionCreated    EventType = "session_created"
	EventAuthSuccess       EventType = "auth_success"
	EventAuthFailure       EventType = "auth_failure"

	// The types of the audit trail itself.

	// EventAuditPruned: entries were removed.
	EventAuditPruned EventType = "audit_pruned"
	// EventAuditGap: entries were not recorded; the details say how many.
	EventAuditGap EventType = "audit_gap"
)

var eventTypes = struct {
	sync.RWMutex
	known map[EventType]struct{}
}{known: map[EventType]struct{}{
	EventPlanCreated: {}, EventPlanExecuted: {}, EventPlanApplied: {}, EventPlanCancelled: {},
	EventPlanErrored: {}, EventPlanPhaseChanged: {}, EventToolInvoked: {}, EventDecisionPoint: {},
	EventSandboxChanged: {}, EventUserApproval: {}, EventResourceModified: {}, EventCorrectionApplied: {},
	EventConfigChanged: {}, EventEntityDeleted: {}, EventSessionCreated: {}, EventAuthSuccess: {},
	EventAuthFailure: {}, EventAuditPruned: {}, EventAuditGap: {},
}}

// RegisterEventType registers an event type of the application's in this process.
// Registering it again has no effect. It is safe for concurrent use. Errors:
// InvalidError.
func RegisterEventType(t EventType) error {
	if len(t) == 0 || len(t) > 63 {
		return invalid("type", "does not have 1 to 63 characters")
	}
	for i, c := range []byte(t) {
		if (c < 'a' || c > 'z') && (i == 0 || c != '_' && (c < '0' || c > '9')) {
			return invalid("type", "is not lower case letters, digits and underscores that begin with a letter")
		}
	}
	eventTypes.Lock()
	defer eventTypes.Unlock()
	eventTypes.known[t] = struct{}{}
	return nil
}

// Known reports whether t is known in this process.
func (t EventType) Known() bool {
	eventTypes.RLock()
	defer eventTypes.RUnlock()
	_, known := eventTypes.known[t]
	return known
}

package audit

import "github.com/seed-df90f812/agentstore/internal/events"

// The event types that every store knows. The last two are the audit trail's own: entries
// were removed, and entries were not recorded (the details say how many).
const (
	EventPlanCreated       = events.PlanCreated
	EventPlanExecuted      = events.PlanExecuted
	EventPlanApplied       = events.PlanApplied
	EventPlanCancelled     = events.PlanCancelled
	EventPlanErrored       = events.PlanErrored
	EventPlanPhaseChanged  = events.PlanPhaseChanged
	EventToolInvoked       = events.ToolInvoked
	EventDecisionPoint     = events.DecisionPoint
	EventSandboxChanged    = events.SandboxChanged
	EventUserApproval      = events.UserApproval
	EventResourceModified  = events.ResourceModified
	EventCorrectionApplied = events.CorrectionApplied
	EventConfigChanged     = events.ConfigChanged
	EventEntityDeleted     = events.EntityDeleted
	EventSessionCreated    = events.SessionCreated
	EventAuthSuccess       = events.AuthSuccess
	EventAuthFailure       = events.AuthFailure
	EventAuditPruned       = events.AuditPruned
	EventAuditGap          = events.AuditGap
)

// RegisterEventType registers an event type of the application's in this process.
// Registering it again has no effect. It is safe for concurrent use. Errors:
// repo.InvalidError.
func RegisterEventType(t string) error { return events.Register(t) }

// Package limits has the limits that all stores check before anything reaches the
// database. The contract (package repo) names the ones that callers need, and says
// the numbers of the others.
package limits

import "time"

// PlacesNamespace is the namespace in which a spread keeps the shards of the others. It has only these data.
const PlacesNamespace = "agentstore.places"

// Sizes are in bytes of UTF-8.
const (
	// MaxLeaseSlots bounds how many owners may hold a lease at once.
	MaxLeaseSlots = 1000
	// MaxUserIDBytes bounds names that may be ids of the caller's users: a session's
	// owner and a message's call id.
	MaxUserIDBytes = 1024
	// MaxScopeBytes bounds the name of a shared scope of state.
	MaxScopeBytes = 1024
	// MaxStateKeyBytes and MaxStateValueBytes bound a key of state and its value.
	MaxStateKeyBytes   = 1024
	MaxStateValueBytes = 1 << 20
	// MaxStateChanges bounds the changes of state of one call, or of one of its turns.
	MaxStateChanges = 1000
	// MaxStateScopes bounds the scopes of one call, or of one of its turns.
	MaxStateScopes = 1000
	// MaxStateReadKeys bounds the keys that State.Read returns.
	MaxStateReadKeys = 10_000
	// MaxStateBytes bounds the keys and values of state of one call.
	MaxStateBytes = 64 << 20
	// MaxJSONDepth bounds how deeply arrays and objects of a JSON document may nest.
	MaxJSONDepth = 512
	// MaxBatchBytes bounds the content, metadata, payloads, kinds and call ids of one
	// append.
	MaxBatchBytes = 64 << 20

	// DefaultLeaseTTL is what zero means.
	DefaultLeaseTTL = 5 * time.Minute
	// MaxLeaseNameBytes bounds the name of a lease's key.
	MaxLeaseNameBytes = 768

	// DefaultStreamTTL is what zero means.
	DefaultStreamTTL = 5 * time.Minute
	// MaxParts and MaxPartsBytes bound the parts of one append.
	MaxParts      = 1000
	MaxPartsBytes = 16 << 20
	// DefaultStreamRemoval is the default limit of Streams.RemoveExpired, and
	// MaxStreamRemoval the largest.
	DefaultStreamRemoval = 1000
	MaxStreamRemoval     = 10_000

	// MaxTextBytes bounds descriptions, definitions of done, invariants and reasons.
	MaxTextBytes = 64 << 10
	// MaxTraceBytes bounds the trace of a use.
	MaxTraceBytes = 512
	// MaxTags, MaxArguments, MaxInvariants and MaxProjects bound an action's and a plan's
	// parts.
	MaxTags       = 100
	MaxArguments  = 100
	MaxInvariants = 100
	MaxProjects   = 100
	// MaxPatternBytes bounds an argument's pattern.
	MaxPatternBytes = 1000
	// MaxPatternSize bounds the instructions of its program: x{100} has a hundred. Together the
	// values of a use with patterns cost at most MaxPatternSteps, each its bytes times those.
	MaxPatternSize  = 10_000
	MaxPatternSteps = 16 << 20

	// MaxReversions is how often a plan can be reverted.
	MaxReversions = 3
	// MaxPlanDepth is the depth of the deepest child plan; a top-level plan's is 0.
	MaxPlanDepth = 10
	// MaxChildPlans bounds the children of one plan.
	MaxChildPlans = 1000

	// MaxClaimedPlans bounds the plans of one claim, and MaxClaimLanes the combinations
	// of a namespace and an action that it asks for.
	MaxClaimedPlans = 100
	MaxClaimLanes   = 1000
	// MaxPlanCount bounds the plans of a stage that are counted.
	MaxPlanCount = 10_001
	// MaxAtOnce bounds the plans that a limit allows to be claimed at once.
	MaxAtOnce = 10_000
	// DefaultSweep is the default limit of Plans.Sweep, and MaxSweep the largest.
	DefaultSweep = 100
	MaxSweep     = 1000
	// ExpiredGrace is for how long a claim has expired that a sweep ends: until then it is left to
	// claims.
	ExpiredGrace = 10 * time.Second
	// MaxPriority is the highest priority of a plan.
	MaxPriority = 3
	// MaxDelay bounds for how long a plan may be delayed or kept.
	MaxDelay = 10 * 365 * 24 * time.Hour
	// FirstBackoff is the mean pause after the first failure of a plan. It doubles with each
	// further one, up to MaxBackoff.
	FirstBackoff = time.Second
	MaxBackoff   = time.Hour

	// MaxReadMessages bounds the messages that a read of sessions is asked for.
	MaxReadMessages = 10_000
	// MaxReadBytes is the number of bytes of messages after which it returns no further
	// ones.
	MaxReadBytes = 16 << 20

	// DefaultAuditCount is the default limit of a count of entries, and MaxAuditCount the
	// largest.
	DefaultAuditCount = 10_000
	MaxAuditCount     = 1_000_000
)

package repo

import "time"

// Limits that are checked before anything reaches the database. Sizes are in
// bytes of UTF-8.
const (
	// MaxNameBytes bounds namespaces, actors, profile names and kinds of messages.
	MaxNameBytes = 255
	// MaxKeyBytes bounds the key of a session.
	MaxKeyBytes = 1024
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
	// MaxStateReadKeys bounds the keys that StateReader.Read returns.
	MaxStateReadKeys = 10_000
	// MaxStateBytes bounds the keys and values of state of one call.
	MaxStateBytes = 64 << 20
	// MaxContentBytes bounds a message's content.
	MaxContentBytes = 16 << 20
	// MaxPayloadBytes bounds a message's payload.
	MaxPayloadBytes = 16 << 20
	// MaxMetadataBytes bounds a metadata document.
	MaxMetadataBytes = 1 << 20
	// MaxJSONDepth bounds how deeply arrays and objects may nest in such a document.
	MaxJSONDepth = 512
	// MaxBatchMessages bounds the messages of one append.
	MaxBatchMessages = 10_000
	// MaxBatchBytes bounds the content, metadata, payloads, kinds and call ids of one
	// append.
	MaxBatchBytes = 64 << 20

	// MinLeaseTTL and MaxLeaseTTL bound how long a lease lasts that is not renewed, and
	// DefaultLeaseTTL is what zero means.
	MinLeaseTTL     = 5 * time.Second
	MaxLeaseTTL     = time.Hour
	DefaultLeaseTTL = 5 * time.Minute
	// MaxLeaseNameBytes bounds the name of a lease's key.
	MaxLeaseNameBytes = 768

	// MinStreamTTL and MaxStreamTTL bound how long a stream lives that nothing is added
	// to, and DefaultStreamTTL is what zero means.
	MinStreamTTL     = time.Second
	MaxStreamTTL     = 24 * time.Hour
	DefaultStreamTTL = 5 * time.Minute
	// MaxPartBytes bounds a part of a stream, and MaxParts and MaxPartsBytes the parts of
	// one append.
	MaxPartBytes  = 16 << 20
	MaxParts      = 1000
	MaxPartsBytes = 16 << 20
	// DefaultStreamRemoval is the default limit of StreamWriter.RemoveExpired, and
	// MaxStreamRemoval the largest.
	DefaultStreamRemoval = 1000
	MaxStreamRemoval     = 10_000

	// MaxTurns bounds the turns of one call. Together their messages may not be more than
	// MaxBatchMessages and MaxBatchBytes, and their keys and values of state not more than
	// MaxStateBytes.
	MaxTurns = 1000

	// MaxTextBytes bounds descriptions, definitions of done, invariants and
	// reasons.
	MaxTextBytes = 64 << 10
	// MaxTags, MaxArguments, MaxInvariants and MaxProjects bound an action's
	// and a plan's parts.
	MaxTags       = 100
	MaxArguments  = 100
	MaxInvariants = 100
	MaxProjects   = 100
	// MaxPatternBytes bounds an argument's pattern.
	MaxPatternBytes = 1000

	// MaxReversions is how often a plan can be reverted.
	MaxReversions = 3
	// MaxPlanDepth is the depth of the deepest child plan; a top-level plan's
	// is 0.
	MaxPlanDepth = 10
	// MaxChildPlans bounds the children of one plan.
	MaxChildPlans = 1000

	// MaxClaimedPlans bounds the plans of one claim, and MaxClaimLanes the combinations
	// of a namespace and an action that it asks for.
	MaxClaimedPlans = 100
	MaxClaimLanes   = 1000
	// DefaultMaxAttempts is what a claim's MaxAttempts of zero means.
	DefaultMaxAttempts = 5

	// DefaultPageSize is what a limit of zero means.
	DefaultPageSize = 100
	// MaxPageSize is the largest limit of a page.
	MaxPageSize = 1000

	// MaxReadMessages bounds the messages that SessionReader.Read is asked for.
	MaxReadMessages = 10_000
	// MaxReadBytes is the number of bytes of messages after which it returns no
	// further ones.
	MaxReadBytes = 16 << 20

	// DefaultAuditCount is the default limit of a count of entries, and
	// MaxAuditCount the largest.
	DefaultAuditCount = 10_000
	MaxAuditCount     = 1_000_000

	// MaxSealEntries bounds the entries of one seal.
	MaxSealEntries = 10_000
	// MaxSealBytes bounds the details of the entries of one seal.
	MaxSealBytes = 16 << 20
	// MaxHeldInPrune bounds the holds in the entry of a prune.
	MaxHeldInPrune = 20_000

	// DefaultNamespace is what an empty namespace means.
	DefaultNamespace = "local"
)

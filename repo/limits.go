package repo

// Limits that are checked before anything reaches the database. Sizes are in
// bytes of UTF-8.
const (
	// MaxNameBytes bounds namespaces, actors and profile names.
	MaxNameBytes = 255
	// MaxContentBytes bounds a message's content.
	MaxContentBytes = 16 << 20
	// MaxPayloadBytes bounds a message's payload.
	MaxPayloadBytes = 16 << 20
	// MaxMetadataBytes bounds a metadata document.
	MaxMetadataBytes = 1 << 20
	// MaxJSONDepth bounds how deep arrays and objects may nest in one.
	MaxJSONDepth = 512
	// MaxBatchMessages bounds the messages of one append.
	MaxBatchMessages = 10_000
	// MaxBatchBytes bounds the content, metadata and payload of one append.
	MaxBatchBytes = 64 << 20

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

	// DefaultPageSize is what a limit of zero means.
	DefaultPageSize = 100
	// MaxPageSize is the largest limit of a page.
	MaxPageSize = 1000

	// DefaultAuditCount is how far a count of entries goes by default,
	// MaxAuditCount how far at most.
	DefaultAuditCount = 10_000
	MaxAuditCount     = 1_000_000

	// DefaultNamespace is what an empty namespace means.
	DefaultNamespace = "local"
)

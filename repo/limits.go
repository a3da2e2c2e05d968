package repo

import "time"

// Limits that are checked first. Sizes are in bytes of UTF-8.
const (
	MaxNameBytes     = 255      // of namespaces, actors, profile names and kinds of messages
	MaxKeyBytes      = 1024     // of the key of a session or a stream
	MaxContentBytes  = 16 << 20 // of a message's content
	MaxPayloadBytes  = 16 << 20 // of a message's payload
	MaxMetadataBytes = 1 << 20  // of a metadata document, which may nest 512 levels deep
	MaxBatchMessages = 10_000   // of one append, with 64 MiB together
	MaxPartBytes     = 16 << 20 // of a part of a stream

	MinLeaseTTL  = 5 * time.Second // of a lease that is not renewed
	MaxLeaseTTL  = time.Hour
	MinStreamTTL = time.Second // of a stream that nothing is added to
	MaxStreamTTL = 24 * time.Hour

	DefaultPageSize = 100 // what a limit of zero means
	MaxPageSize     = 1000

	DefaultNamespace = "local" // what an empty namespace means
)

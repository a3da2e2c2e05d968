// Package export writes and reads the JSON document in which a session moves from
// store to store. All implementations of repo.Sessions share it. The format
// is stable; docs/export.md describes it.
//
// Reading and writing hold one message, or one key of state, at a time, however long
// the session is.
package export

import "github.com/seed-df90f812/agentstore/repo"

// schemaVersion is the only version of the format.
const schemaVersion = 1

// maxLinkedPlans bounds linked_plan_ids, which both sides hold in memory.
const maxLinkedPlans = 100_000

// timeLayout is RFC 3339 in UTC with microseconds: one text for each time.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// keepCapacity is the largest buffer that is kept for the next message.
const keepCapacity = 1 << 20

// sourceSize is how much is read and written at once.
const sourceSize = 64 << 10

// fault says what is wrong with a document.
type fault = repo.ImportError

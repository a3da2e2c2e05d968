// Package document writes and reads the JSON document that a session travels
// in from store to store. It is for implementations of repo.SessionPorter, which
// share it; the format itself is stable and stands in docs/export.md.
//
// Both ways hold one message at a time, however long the session is.
package document

import "github.com/seed-df90f812/agentstore/repo"

// schemaVersion is the one version of the format that there is.
const schemaVersion = 1

// maxLinkedPlans bounds linked_plan_ids, which both sides hold in memory.
const maxLinkedPlans = 100_000

// timeLayout is RFC 3339 in UTC with microseconds: one text for each time.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// keepCapacity is the largest buffer that is kept for the next message.
const keepCapacity = 1 << 20

// fault is how the reader's parts report: Field is the path below the value
// that they read, and each caller puts its own part in front.
type fault = repo.ImportError

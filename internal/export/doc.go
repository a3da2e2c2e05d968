// Package export writes and reads the JSON document in which a session moves from
// store to store. All implementations of repo.Sessions share it. docs/export.md
// describes the format.
//
// Reading and writing hold one message, or one key of state, at a time, however long
// the session is.
package export

import (
	"encoding/base64"

	"github.com/seed-df90f812/agentstore/repo"
)

// schemaVersion is the only version of the format.
const schemaVersion = 1

// maxLinkedPlans bounds linked_plan_ids, which both sides hold in memory.
const maxLinkedPlans = 100_000

// maxBase bounds a fork's base, and with it where its sequences begin: there is room above it
// for more messages than any session gets.
const maxBase = 1 << 62

// sourceSize is how much is read and written at once.
const sourceSize = 64 << 10

// maxLine bounds a line before it is in memory. The longest has a message whose content
// consists of control characters, each an escape of six bytes, and whose metadata of line
// breaks, each of two.
var maxLine = 6*repo.MaxContentBytes + base64.StdEncoding.EncodedLen(repo.MaxPayloadBytes) +
	2*repo.MaxMetadataBytes + sourceSize

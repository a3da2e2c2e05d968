// Package claim claims plans. Short statements look without locks at what is due and at limits, pure rules choose
// (internal/rules), and one statement locks what was chosen: a claim is one transaction of three round trips, and waits
// for no lock.
package claim

import "github.com/seed-df90f812/agentstore/db"

var queries = db.New()

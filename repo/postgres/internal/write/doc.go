// Package write decides about writes to sessions, and makes them: appends, and turns with all that they have. It is the
// way from a checked turn (Turn) to its outcome, in a group of the pool (Appender) or in a transaction of the caller's
// (InTx).
//
// Everything that is written is a turn. A lone message is one statement (MessageAppendOne), which writes it if the
// session is free, exists, and has the sequence and the fence that are expected. The statement does not say why it has
// written nothing: then the ledger is asked, which makes all groups. It locks the rows, reads what a turn depends on,
// decides by the rules that the store in memory has, too (internal/rules), and writes: two round trips.
package write

import "github.com/seed-df90f812/agentstore/db"

var queries = db.New()

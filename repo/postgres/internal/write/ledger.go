package write

import (
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/hints"
)

// ledger has the rows on which appends and turns depend that are made in one
// transaction. It locks them and then reads what they depend on, decides on one after
// the other, so that each meets what those before it have changed, and writes what has
// changed.
type ledger struct {
	counters map[repo.ID]*counterRow
	usages   map[repo.ID]*usageRow
	scopes   map[repo.Scope]*scopeRow
	// values are the values of keys, nil if the key does not exist. Keys that no
	// change depends on are not read.
	values map[ofScope]*repo.StateValue
	// found are where the rows of values are that were read.
	found map[ofScope]pgtype.TID
	// turns, messages and added are what is stored under ids that may be stored.
	turns    map[ofTurn]db.TurnFindRow
	messages map[ofSession]bool
	added    map[ofSession]repo.Usage
	// actions have the versions of used actions, and streams what is open under keys that are
	// locked.
	actions map[string]int64
	streams map[string]*openStream
	// waits: it may wait for rows.
	waits bool
	// begun is when the counters were locked, and now when the scopes were.
	begun, now time.Time
	// lockTimeout is the setting of that name in milliseconds, without the ledger's own bound. Nil: it is not known.
	lockTimeout *int64
	// otherLevel: transactions are not read committed by default.
	otherLevel bool

	// What is written: sessions have the appends to each in their order.
	sessions []repo.ID
	// messageIDs, usageIDs and turnIDs are the ids that are written.
	messageIDs, usageIDs map[ofSession]bool
	turnIDs              map[ofTurn]bool

	// has are the messages that turns follow, if they are stored, and branched the sessions that have a row of
	// session_branches, or get one (branching).
	has       map[ofPlace]bool
	branched  map[repo.ID]bool
	branching []repo.ID

	inserted []*Turn
	writes   map[ofScope]rules.StateWrite
	used     []*Turn
	// working make plans and open streams.
	working []*Turn
	// places are where the rows are after that, of counters, and of scopes and keys (keyOf).
	places []hints.Place[repo.ID]

	// hints say where rows may be. Nil: it is not known.
	hints *hints.Hints[repo.ID]
}

type (
	ofSession struct{ session, id repo.ID }
	ofTurn    struct {
		session repo.ID
		id      string
	}
	ofPlace struct {
		session  repo.ID
		sequence int64
	}
	ofScope struct {
		scope repo.Scope
		key   string
	}
)

// counterRow is a session's counter.
type counterRow struct {
	next int64
	// stored is the next sequence that was stored.
	stored int64
	// follows is what the next message follows (nil: the one before it), and wasFollows what was stored.
	follows, wasFollows *int64

	locked bool
	hint   pgtype.TID // see hints
	// updated is when it is updated.
	updated time.Time
	// fence is the latest fence of the session's lease. fencedOnly: writes need a fence.
	fence      int64
	fencedOnly bool
	// patience: see patienceOf.
	patience time.Duration
	appends  []*Turn // that are written
}

// usageRow is a session's usage. Nil: it does not exist, or was skipped.
type usageRow struct {
	total repo.Usage
	// budget is nil if there is none.
	budget  *repo.Cost
	changed bool
}

// scopeRow is the row of a scope. Nil: it does not exist.
type scopeRow struct {
	id      pgtype.UUID
	hint    pgtype.TID // where it is
	version int64
	stored  int64 // the version that was stored
	locked  bool
	changed bool
}

// newLedger returns the ledger of appends and turns, with an entry for each row that
// they may need.
func newLedger(items []*Turn) *ledger {
	l := &ledger{
		counters: map[repo.ID]*counterRow{}, usages: map[repo.ID]*usageRow{}, scopes: map[repo.Scope]*scopeRow{},
		values: map[ofScope]*repo.StateValue{}, found: map[ofScope]pgtype.TID{}, turns: map[ofTurn]db.TurnFindRow{},
		messages: map[ofSession]bool{}, added: map[ofSession]repo.Usage{}, messageIDs: map[ofSession]bool{},
		turnIDs: map[ofTurn]bool{}, usageIDs: map[ofSession]bool{}, writes: map[ofScope]rules.StateWrite{},
		has: map[ofPlace]bool{}, branched: map[repo.ID]bool{},
		actions: map[string]int64{}, streams: map[string]*openStream{},
	}
	for _, a := range items {
		if !a.SessionID.IsZero() {
			l.counters[a.SessionID] = nil
		}
		for _, scope := range a.State.Scopes {
			l.scopes[scope.Scope] = nil
		}
		if a.Use != nil {
			l.actions[a.Action.String()] = 0
		}
		if a.Open != nil {
			l.streams[a.Open.Key] = nil
		}
		if a.Usage != nil {
			l.usages[a.SessionID] = nil
		}
	}
	return l
}

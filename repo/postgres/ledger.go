package postgres

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
)

// ledger has the rows on which appends and turns depend that are made in one
// transaction. It locks them and then reads what they depend on, decides on one after
// the other, so that each meets what those before it have changed, and writes what has
// changed.
type ledger struct {
	counters map[repo.ID]*counterRow
	usages   map[repo.ID]*usageRow
	scopes   map[repo.Scope]*scopeRow
	// values are those of keys, nil if the key does not exist. Keys that no change
	// depends on are not read.
	values map[ofScope]*repo.StateValue
	// turns, messages and added are what is stored under ids that may be stored.
	turns    map[ofTurn]db.TurnFindRow
	messages map[ofSession]bool
	added    map[ofSession]repo.Usage
	// actions have the versions of those that are used, and streams what is open under keys that are
	// locked.
	actions map[string]int64
	streams map[string]*openStream
	// waits: it may wait for rows.
	waits bool
	// begun is when the counters were locked, and now when the scopes were.
	begun, now time.Time
	// otherLevel: transactions are not read committed by default.
	otherLevel bool

	// What is written: sessions have the appends to each in their order.
	sessions []repo.ID
	// messageIDs, usageIDs and turnIDs are those that are written.
	messageIDs, usageIDs map[ofSession]bool
	turnIDs              map[ofTurn]bool

	// has are the messages that turns follow, if they are stored, and branched the sessions that have a row of session_branches, or
	// get one (branching).
	has       map[ofPlace]bool
	branched  map[repo.ID]bool
	branching []repo.ID

	inserted []*turn
	writes   map[ofScope]rules.StateWrite
	used     []*turn
	// working make plans and open streams.
	working []*turn
	// places are where the counter rows are after that.
	places []place[repo.ID]

	// hints say where counter rows may be. Nil: nobody knows.
	hints *hints[repo.ID]
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

	held bool
	hint pgtype.TID // see hints
	// updated is when it is updated.
	updated time.Time
	// fence is the latest token of the session's lease. fencedOnly: writes need a token.
	fence      int64
	fencedOnly bool
	// patience: see patienceOf.
	patience time.Duration
	appends  []*turn // that are written
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
	version int64
	held    bool
	changed bool
}

// newLedger returns the ledger of appends and turns, with an entry for each row that
// they may need.
func newLedger(items []*turn) *ledger {
	l := &ledger{
		counters: map[repo.ID]*counterRow{}, usages: map[repo.ID]*usageRow{}, scopes: map[repo.Scope]*scopeRow{},
		values: map[ofScope]*repo.StateValue{}, turns: map[ofTurn]db.TurnFindRow{}, messages: map[ofSession]bool{},
		added: map[ofSession]repo.Usage{}, messageIDs: map[ofSession]bool{}, turnIDs: map[ofTurn]bool{}, usageIDs: map[ofSession]bool{},
		writes: map[ofScope]rules.StateWrite{}, has: map[ofPlace]bool{}, branched: map[repo.ID]bool{},
		actions: map[string]int64{}, streams: map[string]*openStream{},
	}
	for _, a := range items {
		l.counters[a.SessionID] = nil
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

// waiting says which locks a transaction waits for. The others it skips. It may create
// the rows of scopes that do not exist, and waits then for others that do. brief bounds
// each wait.
type waiting struct{ sessions, scopes, creates, brief bool }

// lock adds the statements that lock the rows, in an order that all transactions have.
func (l *ledger) lock(ctx context.Context, p *conn.Pipeline, waits waiting) {
	limit := func() {
		if waits.brief {
			p.Add(func(q db.DBTX) error { return queries.TurnLimitWait(ctx, q) })
		}
	}
	if waits.sessions {
		limit()
	}
	if sessions := sortedIDs(l.counters); len(sessions) > 0 {
		if waits.sessions {
			p.Add(func(q db.DBTX) error { return queries.TurnAwaitCounters(ctx, q, sessions) })
		}
		p.Add(func(q db.DBTX) error {
			rows, err := queries.TurnLockCounters(ctx, q, db.TurnLockCountersParams{SessionIds: sessions, Hints: each(sessions, l.hintOf)})
			for _, row := range rows {
				if row.Held && waits.sessions {
					continue // it was deleted during the wait
				}
				l.begun = row.Now
				l.counters[row.SessionID.Bytes] = &counterRow{
					next: row.NextSequence, stored: row.NextSequence, follows: row.Follows, wasFollows: row.Follows,
					held: row.Held, hint: row.Hint, updated: row.UpdatedAt, fence: row.Fence, fencedOnly: row.FencedOnly,
					patience: conn.PatienceOf(row.LockTimeout),
				}
				l.otherLevel = l.otherLevel || row.OtherLevel
			}
			return err
		})
	}
	if sessions := sortedIDs(l.usages); len(sessions) > 0 {
		if waits.sessions {
			p.Add(func(q db.DBTX) error { return queries.TurnAwaitUsages(ctx, q, sessions) })
		}
		p.Add(func(q db.DBTX) error {
			rows, err := queries.TurnLockUsages(ctx, q, sessions)
			for _, row := range rows {
				l.usages[row.SessionID.Bytes] = &usageRow{
					total:  usageOf(row.InputTokens, row.OutputTokens, row.CostNanos),
					budget: (*repo.Cost)(row.BudgetNanos),
				}
			}
			return err
		})
	}
	scopes := sortedScopes(l.scopes)
	if waits.scopes && !waits.sessions && len(scopes) > 0 {
		limit() // only now, so that the setting is what the counters' statement returns
	}
	if waits.creates {
		lockScopes(ctx, p, scopes)
	}
	if len(scopes) > 0 {
		if waits.scopes && !waits.creates {
			p.Add(func(q db.DBTX) error { return awaitScopes(ctx, q, scopes) })
		}
		p.Add(func(q db.DBTX) error {
			rows, err := queries.TurnLockScopes(ctx, q, lockParams(scopes))
			for _, row := range rows {
				if row.Held && waits.scopes {
					continue // it was erased during the wait
				}
				l.scopes[scopes[row.Place-1]] = &scopeRow{id: row.ID, version: row.Version, held: row.Held}
				if row.Now.After(l.now) {
					l.now = row.Now
				}
			}
			return err
		})
	}
	l.lockWork(ctx, p, waits.sessions)
}

func lockParams(scopes []repo.Scope) db.TurnLockScopesParams {
	columns := newScopeColumns(scopes)
	return db.TurnLockScopesParams{SessionIds: columns.sessions, Namespaces: columns.namespaces, Names: columns.names}
}

func awaitScopes(ctx context.Context, q db.DBTX, scopes []repo.Scope) error {
	return queries.TurnAwaitScopes(ctx, q, db.TurnAwaitScopesParams(lockParams(scopes)))
}

// hintOf returns where a session's counter may be.
func (l *ledger) hintOf(id pgtype.UUID) pgtype.TID {
	if l.hints == nil {
		return pgtype.TID{}
	}
	return l.hints.of(id.Bytes)
}

// sortedScopes returns the scopes in the order in which they are locked.
func sortedScopes(rows map[repo.Scope]*scopeRow) []repo.Scope {
	return slices.SortedFunc(maps.Keys(rows), rules.CompareScopes)
}

func sortedIDs[Row any](rows map[repo.ID]*Row) []pgtype.UUID {
	return toUUIDs(slices.SortedFunc(maps.Keys(rows), repo.ID.Compare))
}

// read adds the statements that read what the items depend on. They come after the
// locks, so that they see what was committed before these were free.
func (l *ledger) read(ctx context.Context, p *conn.Pipeline, items []*turn) {
	var messages, usages sessionKeys
	var turns struct {
		sessions []pgtype.UUID
		ids      []string
	}
	var values []ofScope
	var places struct {
		sessions  []pgtype.UUID
		sequences []int64
	}
	for _, a := range items {
		if a.Repeatable || a.Unsure {
			for i := range a.Messages {
				messages.add(a.SessionID, a.Messages[i].ID)
			}
		}
		if a.ID != "" && (a.Given || a.Unsure) {
			turns.sessions, turns.ids = append(turns.sessions, toUUID(a.SessionID)), append(turns.ids, a.ID)
		}
		if a.Usage != nil {
			usages.add(a.SessionID, a.Usage.ID)
		}
		if a.After != nil {
			places.sessions, places.sequences = append(places.sessions, toUUID(a.SessionID)), append(places.sequences, *a.After)
		}
		for _, c := range a.State.Changes {
			if rules.ReadsState(c) {
				values = append(values, ofScope{c.Scope, c.Key})
			}
		}
	}
	if len(turns.ids) > 0 {
		p.Add(func(q db.DBTX) error {
			rows, err := queries.TurnFind(ctx, q, db.TurnFindParams{SessionIds: turns.sessions, Ids: turns.ids})
			for _, row := range rows {
				l.turns[ofTurn{row.SessionID.Bytes, row.ID}] = row
			}
			return err
		})
	}
	if len(places.sessions) > 0 {
		p.Add(func(q db.DBTX) error {
			rows, err := queries.TurnFindPlaces(ctx, q, db.TurnFindPlacesParams{SessionIds: places.sessions, Sequences: places.sequences})
			for _, row := range rows {
				l.has[ofPlace{row.SessionID.Bytes, row.Sequence}] = row.Found
				l.branched[row.SessionID.Bytes] = row.Branched
			}
			return err
		})
	}
	if len(messages.ids) > 0 {
		p.Add(func(q db.DBTX) error {
			rows, err := queries.TurnFindMessages(ctx, q, db.TurnFindMessagesParams{SessionIds: messages.sessions, Ids: messages.ids})
			for _, row := range rows {
				l.messages[ofSession{row.SessionID.Bytes, row.ID.Bytes}] = true
			}
			return err
		})
	}
	if len(usages.ids) > 0 {
		p.Add(func(q db.DBTX) error {
			rows, err := queries.TurnFindUsages(ctx, q, db.TurnFindUsagesParams{SessionIds: usages.sessions, Ids: usages.ids})
			for _, row := range rows {
				l.added[ofSession{row.SessionID.Bytes, row.ID.Bytes}] = usageOf(row.InputTokens, row.OutputTokens, row.CostNanos)
			}
			return err
		})
	}
	if len(values) > 0 {
		scopes := sortedScopes(l.scopes)
		columns, places := newScopeColumns(scopes), placesOf(scopes)
		params := db.TurnFindValuesParams{SessionIds: columns.sessions, Namespaces: columns.namespaces, Names: columns.names}
		for _, at := range values {
			params.Scopes, params.Keys = append(params.Scopes, places[at.scope]), append(params.Keys, at.key)
		}
		p.Add(func(q db.DBTX) error {
			rows, err := queries.TurnFindValues(ctx, q, params)
			for _, row := range rows {
				at := values[row.Place-1]
				l.values[at] = &repo.StateValue{Key: at.key, Value: row.Value, Version: row.Version}
			}
			return err
		})
	}
}

// sessionKeys are keys as the arrays that a statement unnests.
type sessionKeys struct{ sessions, ids []pgtype.UUID }

func (k *sessionKeys) add(session, id repo.ID) {
	k.sessions, k.ids = append(k.sessions, toUUID(session)), append(k.ids, toUUID(id))
}

// verdict is what was decided on an append or turn.
type verdict int

const (
	// answered: it is not written, and its result says why.
	answered verdict = iota
	// accepted: it is written.
	accepted
	// held: a row that it needs is locked elsewhere.
	held
	// deferred: it has an id that another one of the transaction writes.
	deferred
)

// decide decides on the next append or turn. It sets its outcome, or what of it is
// known before it is written. The error is its answer.
func (l *ledger) decide(a *turn) (verdict, error) {
	a.outcome, a.met = outcome{}, barrier{}
	counter := l.counters[a.SessionID]
	switch {
	case counter == nil:
		if a.Unsure { // it may have been written, and the session deleted
			return answered, &conn.Error{Sentinel: repo.ErrUnknownOutcome, Cause: conn.ErrLateAttempt}
		}
		return answered, pgx.ErrNoRows
	case counter.held:
		return held, nil
	case l.givesAgain(a):
		return deferred, nil
	}
	a.outcome.first = counter.next
	var digest []byte
	if row, found := l.turns[ofTurn{a.SessionID, a.ID}]; found && a.ID != "" {
		a.outcome.stored, digest = &row, row.Digest
	}
	known := slices.IndexFunc(a.Messages, func(m repo.NewMessage) bool { return l.messages[ofSession{a.SessionID, m.ID}] })
	if again, err := a.Again(digest, known >= 0); again {
		a.outcome.known = a.ID == ""
		return answered, err
	}
	if v, err := l.meets(a, counter); v == held || err != nil {
		return v, err
	}
	rows := l.rowsOf(a, counter)
	if known >= 0 {
		rows.Known = a.Messages[known].ID
	}
	made, err := a.Add(rows)
	if err == nil {
		err = l.checkWork(a)
	}
	if err != nil {
		return answered, a.refusal(err)
	}
	a.outcome.made = made
	l.accept(a, counter)
	return accepted, nil
}

// meets returns what is in the way of a turn: a row that is held, or a scope that has none.
func (l *ledger) meets(a *turn, counter *counterRow) (verdict, error) {
	for _, scope := range a.State.Scopes {
		row := l.scopes[scope.Scope]
		switch {
		case row == nil:
			a.met.missing = append(a.met.missing, scope.Scope)
		case row.held:
			if scope.Scope.Name != "" {
				a.met.heldScope, a.met.patience = &scope.Scope, counter.patience
			}
			return held, nil
		}
	}
	switch {
	case len(a.met.missing) > 0:
		a.met.patience = counter.patience
		return answered, errNoScope
	case a.Usage != nil && l.usages[a.SessionID] == nil:
		return held, nil
	}
	return answered, nil
}

// rowsOf returns what a turn depends on.
func (l *ledger) rowsOf(a *turn, counter *counterRow) *rules.TurnRows {
	rows := &rules.TurnRows{
		Fence: counter.fenceOf(a.SessionID), Next: counter.next, Head: rules.Head(counter.follows, counter.next), Now: l.now,
	}
	if a.After != nil {
		rows.HasAfter = l.has[ofPlace{a.SessionID, *a.After}] || *a.After >= counter.stored && *a.After < counter.next
	}
	if a.Usage != nil {
		usage := l.usages[a.SessionID]
		rows.Usage, rows.Budget = usage.total, usage.budget
		if added, found := l.added[ofSession{a.SessionID, a.Usage.ID}]; found {
			rows.AddedUsage = &added
		}
	}
	for _, scope := range a.State.Scopes {
		rows.Versions = append(rows.Versions, l.scopes[scope.Scope].version)
	}
	for _, change := range a.State.Changes {
		rows.Values = append(rows.Values, l.values[ofScope{change.Scope, change.Key}])
	}
	return rows
}

// givesAgain reports whether one that was accepted has an id of this one's, of the same
// kind: a usage may have the id of a message.
func (l *ledger) givesAgain(a *turn) bool {
	return a.Repeatable && slices.ContainsFunc(a.Messages, func(m repo.NewMessage) bool { return l.messageIDs[ofSession{a.SessionID, m.ID}] }) ||
		a.ID != "" && l.turnIDs[ofTurn{a.SessionID, a.ID}] || a.Usage != nil && l.usageIDs[ofSession{a.SessionID, a.Usage.ID}]
}

// accept notes what a turn changes. If it has no messages, it may say what the next one follows.
func (l *ledger) accept(a *turn, counter *counterRow) {
	made := a.outcome.made
	if made.AddsUsage {
		usage := l.usages[a.SessionID]
		usage.total, usage.changed = made.Usage, true
		l.used = append(l.used, a)
		l.usageIDs[ofSession{a.SessionID, a.Usage.ID}] = true
	}
	for _, scope := range made.Scopes {
		row := l.scopes[scope.Scope]
		row.version, row.changed = scope.Version, true
	}
	for _, w := range made.Values {
		at := ofScope{w.Scope, w.Key}
		l.writes[at], l.values[at] = w, nil
		if w.Value != nil {
			l.values[at] = &repo.StateValue{Key: w.Key, Value: w.Value, Version: w.Version}
		}
	}
	if a.plan != nil || a.Open != nil {
		l.working = append(l.working, a)
	}
	if a.ID != "" {
		l.inserted = append(l.inserted, a)
		l.turnIDs[ofTurn{a.SessionID, a.ID}] = true
	}
	if a.After != nil {
		counter.follows = rules.Follows(a.After, counter.follows, counter.next)
		if counter.follows != nil && !l.branched[a.SessionID] {
			l.branched[a.SessionID] = true
			l.branching = append(l.branching, a.SessionID)
		}
	}
	if len(a.Messages) == 0 {
		return
	}
	a.outcome.follows, counter.follows = counter.follows, nil
	if len(counter.appends) == 0 {
		l.sessions = append(l.sessions, a.SessionID)
	}
	counter.appends = append(counter.appends, a)
	counter.next += int64(len(a.Messages))
	if a.Repeatable {
		for i := range a.Messages {
			l.messageIDs[ofSession{a.SessionID, a.Messages[i].ID}] = true
		}
	}
}

// write adds the statements that write what was accepted. It reports false if that is
// nothing.
func (l *ledger) write(ctx context.Context, p *conn.Pipeline) bool {
	l.writeMessages(ctx, p)
	l.writeBranches(ctx, p)
	l.writeTurns(ctx, p)
	l.writeState(ctx, p)
	l.writeUsages(ctx, p)
	l.writeWork(ctx, p)
	return len(p.Steps) > 0
}

// writeMessages adds the statements that write the messages. The time is that of the lock, which nobody else has had since.
func (l *ledger) writeMessages(ctx context.Context, p *conn.Pipeline) {
	if len(l.sessions) == 0 {
		return
	}
	advance := db.MessageAdvanceParams{Now: l.begun}
	var messages columns
	var firsts []int64
	for _, session := range l.sessions {
		counter, owner := l.counters[session], toUUID(session)
		advance.SessionIds, advance.Hints = append(advance.SessionIds, owner), append(advance.Hints, counter.hint)
		advance.NextSequences = append(advance.NextSequences, counter.next)
		firsts = append(firsts, counter.stored)
		for _, a := range counter.appends {
			a.outcome.createdAt = &counter.updated
			messages.follow(a.outcome.follows)
			for i := range a.Messages {
				messages.add(owner, a.outcome.first+int64(i), counter.updated, &a.Messages[i])
			}
		}
	}
	p.Add(func(q db.DBTX) error {
		rows, err := queries.MessageAdvance(ctx, q, advance)
		for _, row := range rows {
			session := repo.ID(row.SessionID.Bytes)
			counter := l.counters[session]
			l.places = append(l.places, place[repo.ID]{session, row.Hint, counter.stored, counter.next})
		}
		return err
	})
	p.Add(func(q db.DBTX) error {
		_, err := queries.MessageInsert(ctx, q, messages.MessageInsertParams)
		return err
	})
	check := db.MessageCheckParams{
		SessionIds: advance.SessionIds, Firsts: firsts, NextSequences: advance.NextSequences, Hints: advance.Hints,
	}
	p.Add(func(q db.DBTX) error { return queries.MessageCheck(ctx, q, check) })
}

// writeBranches adds the statements that note which sessions were rewound. Adding messages has set their counters to follow
// the last one.
func (l *ledger) writeBranches(ctx context.Context, p *conn.Pipeline) {
	if len(l.branching) > 0 {
		p.Add(func(q db.DBTX) error { return queries.TurnBranch(ctx, q, toUUIDs(l.branching)) })
	}
	var sessions []pgtype.UUID
	var follows []int64
	for id, counter := range l.counters {
		if counter == nil || counter.held {
			continue
		}
		was := counter.wasFollows
		if len(counter.appends) > 0 {
			was = nil
		}
		if followsOf(counter.next, was) != followsOf(counter.next, counter.follows) {
			to := int64(theOneBefore)
			if counter.follows != nil {
				to = *counter.follows
			}
			sessions, follows = append(sessions, toUUID(id)), append(follows, to)
		}
	}
	if len(sessions) > 0 {
		p.Add(func(q db.DBTX) error {
			return queries.TurnRewind(ctx, q, db.TurnRewindParams{SessionIds: sessions, Follows: follows})
		})
	}
}

func (l *ledger) writeTurns(ctx context.Context, p *conn.Pipeline) {
	if len(l.inserted) == 0 {
		return
	}
	var params db.TurnInsertParams
	for _, a := range l.inserted {
		params.SessionIds = append(params.SessionIds, toUUID(a.SessionID))
		params.Ids = append(params.Ids, a.ID)
		params.Digests = append(params.Digests, a.Digest[:])
		params.FirstSequences = append(params.FirstSequences, a.outcome.first)
		params.MessageCounts = append(params.MessageCounts, int32(len(a.Messages)))
		params.PlanIds = append(params.PlanIds, toOptionalUUID(a.PlanID))
	}
	p.Add(func(q db.DBTX) error { return queries.TurnInsert(ctx, q, params) })
}

func (l *ledger) writeState(ctx context.Context, p *conn.Pipeline) {
	var scopes []pgtype.UUID
	var versions []int64
	for _, row := range l.scopes {
		if row != nil && row.changed {
			scopes, versions = append(scopes, row.id), append(versions, row.version)
		}
	}
	if len(scopes) == 0 {
		return
	}
	p.Add(func(q db.DBTX) error {
		return queries.TurnAdvanceScopes(ctx, q, db.TurnAdvanceScopesParams{Ids: scopes, Versions: versions})
	})
	var set db.TurnSetValuesParams
	var removed struct {
		scopes []pgtype.UUID
		keys   []string
	}
	for at, w := range l.writes {
		scope := l.scopes[at.scope].id
		if w.Value == nil {
			removed.scopes, removed.keys = append(removed.scopes, scope), append(removed.keys, at.key)
			continue
		}
		set.ScopeIds, set.Keys = append(set.ScopeIds, scope), append(set.Keys, at.key)
		set.KeyValues, set.Versions = append(set.KeyValues, string(w.Value)), append(set.Versions, w.Version)
	}
	if len(set.Keys) > 0 {
		p.Add(func(q db.DBTX) error { return queries.TurnSetValues(ctx, q, set) })
	}
	if len(removed.keys) > 0 {
		p.Add(func(q db.DBTX) error {
			return queries.TurnRemoveValues(ctx, q, db.TurnRemoveValuesParams{ScopeIds: removed.scopes, Keys: removed.keys})
		})
	}
}

func (l *ledger) writeUsages(ctx context.Context, p *conn.Pipeline) {
	if len(l.used) == 0 {
		return
	}
	var added db.TurnInsertUsagesParams
	for _, a := range l.used {
		u := a.Usage
		added.SessionIds, added.Ids = append(added.SessionIds, toUUID(a.SessionID)), append(added.Ids, toUUID(u.ID))
		added.InputTokens = append(added.InputTokens, u.InputTokens)
		added.OutputTokens = append(added.OutputTokens, u.OutputTokens)
		added.CostNanos = append(added.CostNanos, int64(u.Cost))
	}
	var totals db.TurnSetUsagesParams
	for session, row := range l.usages {
		if row != nil && row.changed {
			totals.SessionIds = append(totals.SessionIds, toUUID(session))
			totals.InputTokens = append(totals.InputTokens, row.total.InputTokens)
			totals.OutputTokens = append(totals.OutputTokens, row.total.OutputTokens)
			totals.CostNanos = append(totals.CostNanos, int64(row.total.Cost))
		}
	}
	p.Add(func(q db.DBTX) error { return queries.TurnInsertUsages(ctx, q, added) })
	p.Add(func(q db.DBTX) error { return queries.TurnSetUsages(ctx, q, totals) })
}

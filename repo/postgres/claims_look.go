package postgres

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
)

// What stands first may not be for the claim: its lease is held, or its row is locked, for as long
// as somebody likes. So a claim looks at the first plans of each lane, and, if that were too few,
// goes on behind them, look after look, each in a transaction of its own. A lane that has no more is
// closed. A claim makes a bounded number of looks of a bounded size: the next one of the same kind
// goes on where it has ended.
const (
	// claimDepth and minClaimDepth are how many plans the first look reads in all lanes together, and
	// in each, more than it asks for, since other claims under way may have the first ones. So it does
	// with claims that may have expired. Of those it locks a few more than it asks for, dueDepth, since
	// the leases of some may have been renewed.
	claimDepth    = 256
	minClaimDepth = 16
	dueDepth      = 8
	// farDepth is how many plans a further look reads, of either, in those that are open together.
	// The statement has bounds for one of them.
	farDepth      = 2000
	maxClaimLooks = 16
)

// lane is a combination of a namespace, a phase, a priority, and an action or "" for any. One without
// a phase has the claims of the namespace that may have expired.
type lane struct {
	namespace, phase, action string
	priority                 int16
}

// spot is a spot in a lane: behind a plan that has waited since a time.
type spot struct {
	since time.Time
	after pgtype.UUID
}

// closed is behind all plans.
var closed = spot{since: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), after: pgtype.UUID{Valid: true}}

// looking is how far a claim has looked.
type looking struct {
	claim repo.Claim
	// queued and due are its lanes, the namespaces in an order that was drawn by lot.
	queued, due         []lane
	inQueue, inDue      []int32 // the turns of their namespaces
	places              map[lane]spot
	depth, window, most int // plans in a queued lane, claims in another, claims that are taken
	// skipped: somebody else had the lock of a limit. limited: there are limits. byAction: there are some of actions.
	skipped, limited, byAction bool
	// further: of plans that a limit counts, only those count that can be taken.
	further bool
	// anyAction: if there are, the lanes for any action do not do.
	anyAction bool
	// from is since when plans are looked at, and looked is told of the first one.
	from   time.Time
	looked func(first time.Time)
}

func newLooking(claim repo.Claim, lanes lanes, since time.Time, owners int) *looking {
	l := &looking{claim: claim, places: map[lane]spot{}, from: since, looked: func(time.Time) {}}
	seen := map[string]bool{}
	for i, namespace := range lanes.namespaces {
		one := lane{namespace, lanes.phases[i], lanes.actions[i], lanes.priorities[i]}
		l.queued, l.inQueue = append(l.queued, one), append(l.inQueue, lanes.places[i])
		l.places[one] = spot{since, pgtype.UUID{Valid: true}}
		if !seen[namespace] {
			seen[namespace] = true
			l.due, l.inDue = append(l.due, lane{namespace: namespace}), append(l.inDue, lanes.places[i])
			l.places[lane{namespace: namespace}] = spot{}
		}
	}
	l.depth = owners + max(minClaimDepth, claimDepth/max(len(l.queued), 1))
	l.window = owners + max(minClaimDepth, claimDepth/len(l.due))
	l.most = owners + dueDepth
	return l
}

// far has the next looks read more.
func (l *looking) far(owners int) {
	open := func(lanes []lane) (n int) {
		for _, lane := range lanes {
			if l.places[lane] != closed {
				n++
			}
		}
		return max(n, 1)
	}
	l.depth = max(minClaimDepth, farDepth/open(l.queued))
	l.window = max(minClaimDepth, farDepth/open(l.due))
	l.most = owners + dueDepth
}

// hasMore reports whether a lane is open.
func (l *looking) hasMore() bool {
	for _, at := range l.places {
		if at != closed {
			return true
		}
	}
	return false
}

func (l *looking) at(lanes []lane) (sinces []time.Time, afters []pgtype.UUID) {
	for _, lane := range lanes {
		sinces, afters = append(sinces, l.places[lane].since), append(afters, l.places[lane].after)
	}
	return sinces, afters
}

// params are those of a claim of one plan for each owner.
func (l *looking) params(owners []string) (p db.PlanClaimParams) {
	for _, lane := range l.queued {
		p.Namespaces, p.Phases, p.Actions = append(p.Namespaces, lane.namespace), append(p.Phases, lane.phase), append(p.Actions, lane.action)
		p.Priorities = append(p.Priorities, lane.priority)
	}
	for _, lane := range l.due {
		p.DueNamespaces = append(p.DueNamespaces, lane.namespace)
	}
	p.Places, p.DuePlaces = l.inQueue, l.inDue
	p.Sinces, p.Afters = l.at(l.queued)
	p.DueSinces, _ = l.at(l.due)
	p.Depth, p.DueWindow, p.DueDepth = int32(l.depth), int32(l.window), int32(l.most)
	p.Owners, p.LeaseNamespace = owners, leaseNamespace
	p.TtlSeconds, p.Further = l.claim.TTL.Seconds(), l.further
	return p
}

// addWindows adds statements that find where a look ends. They come before the claim: what others
// take in between is not passed over.
func (l *looking) addWindows(ctx context.Context, p *conn.Pipeline, ends map[lane]spot) {
	l.addDueWindows(ctx, p, ends)
	own := l.params(nil)
	p.Add(func(q db.DBTX) error {
		rows, err := queries.PlanQueueWindows(ctx, q, queueWindows(own, own.Depth-1))
		for _, row := range rows {
			ends[l.queued[row.Place-1]] = spot{row.Since, row.PlanID}
		}
		return err
	})
}

// queueWindows asks for the plan of each lane that has so many before it.
func queueWindows(own db.PlanClaimParams, before int32) db.PlanQueueWindowsParams {
	return db.PlanQueueWindowsParams{
		Namespaces: own.Namespaces, Phases: own.Phases, Priorities: own.Priorities, Actions: own.Actions,
		Sinces: own.Sinces, Afters: own.Afters, Before: before,
	}
}

// addDueWindows does so for the claims that may have expired.
func (l *looking) addDueWindows(ctx context.Context, p *conn.Pipeline, ends map[lane]spot) {
	own := l.params(nil)
	p.Add(func(q db.DBTX) error {
		rows, err := queries.PlanDueWindows(ctx, q, db.PlanDueWindowsParams{
			Namespaces: own.DueNamespaces, Sinces: own.DueSinces, Before: own.DueWindow - 1,
		})
		for _, row := range rows {
			ends[l.due[row.Place-1]] = spot{since: row.CheckAt}
		}
		return err
	})
}

// look claims plans, after what windows adds, if it is not nil.
func (l *looking) look(
	ctx context.Context, q db.DBTX, owners []string, ends map[lane]spot, windows func(context.Context, *conn.Pipeline, map[lane]spot),
) (rows []db.PlanClaimRow, err error) {
	p := &conn.Pipeline{}
	alone, isAlone := q.(conn.Alone)
	if isAlone { // it leaves the settings of a caller's transaction as they are
		p.Add(func(q db.DBTX) error { return queries.PlanByIndex(ctx, q) })
	}
	if windows != nil {
		windows(ctx, p, ends)
	}
	p.Add(func(q db.DBTX) error {
		lock, err := queries.PlanLimitLock(ctx, q, l.params(nil).DueNamespaces)
		l.skipped, l.limited, l.byAction = l.skipped || lock.Skipped, l.limited || lock.IsLimited, l.byAction || lock.ByAction
		return err
	})
	if alone.Says {
		return claimPlain(ctx, alone, p.Steps, l.params(owners))
	}
	p.Add(func(q db.DBTX) (err error) {
		rows, err = queries.PlanClaim(ctx, q, l.params(owners))
		return err
	})
	err = p.Send(ctx, q)
	return rows, err
}

// claimIn claims one plan for each owner, as far as there are any in the lanes. The rows have the
// owners' places.
func (l *looking) claimIn(ctx context.Context, q db.DBTX, owners []string, heads *queueHeads, key string) ([]db.PlanClaimRow, error) {
	from, looked := l.from, l.looked
	ends := map[lane]spot{}
	var windows func(context.Context, *conn.Pipeline, map[lane]spot)
	resumed := false
	if from.IsZero() {
		// It looks at all. So it looks for claims that have expired behind those that cannot be
		// taken, too: as long as plans are queued, a claim would never miss them.
		windows = l.addDueWindows
		l.window = max(l.window, farDepth/len(l.due))
		resumed = l.resume(l.due, heads, key)
	}
	rows, err := l.look(ctx, q, owners, ends, windows)
	if err != nil {
		return nil, err
	}
	if len(rows) > 0 {
		looked(rows[0].FirstSince)
	}
	if windows != nil {
		l.advance(l.due, ends)
		heads.leave(key, l.due, l.places)
	}
	if len(rows) == len(owners) || l.byAction && l.anyAction {
		return rows, nil
	}
	clear(ends)
	p := &conn.Pipeline{}
	l.addWindows(ctx, p, ends)
	b := &bounds{}
	if l.limited {
		b.add(ctx, p, l)
	}
	if err := p.Send(ctx, q); err != nil {
		return claimedSoFar(q, rows, err)
	}
	all := slices.Concat(l.queued, l.due)
	for i, one := range all {
		advanced := i >= len(l.queued) && windows != nil // behind what the first look has read
		if _, hasMore := ends[one]; b.full(one) || !hasMore && !advanced && !b.hidden(one) {
			l.places[one] = closed
		}
	}
	l.further = true
	begin := maps.Clone(l.places)
	if windows != nil {
		for _, one := range l.due {
			begin[one] = spot{}
		}
	}
	resumed = l.resume(all, heads, key) || resumed
	for range maxClaimLooks {
		if !l.hasMore() {
			if !resumed {
				break
			}
			l.places, resumed = begin, false // what is free may be before the place where it went on
		}
		l.far(len(owners) - len(rows))
		ends := map[lane]spot{}
		rows, err = claimMore(owners, rows, func(owners []string) ([]db.PlanClaimRow, error) { return l.look(ctx, q, owners, ends, l.addWindows) })
		if err != nil {
			return claimedSoFar(q, rows, err)
		}
		if len(rows) == len(owners) {
			break // there may be more where these were
		}
		l.advance(all, ends)
	}
	heads.leave(key, all, l.places)
	return rows, nil
}

// resume goes on where the last claim has left lanes that are open. It reports whether that is not where they begin.
func (l *looking) resume(lanes []lane, heads *queueHeads, key string) (resumed bool) {
	for _, one := range lanes {
		if at, known := heads.left(key, one); known && l.places[one] != closed {
			l.places[one], resumed = at, true
		}
	}
	return resumed
}

// advance goes on to where a look has ended. A lane where it has not has no more.
func (l *looking) advance(lanes []lane, ends map[lane]spot) {
	for _, one := range lanes {
		end, hasMore := ends[one]
		if !hasMore {
			end = closed
		}
		if l.places[one] != closed {
			l.places[one] = end
		}
	}
}

// claimedSoFar is the answer if a further look has failed. What earlier ones have claimed is
// committed, unless they are in a transaction of the caller's.
func claimedSoFar(q db.DBTX, rows []db.PlanClaimRow, err error) ([]db.PlanClaimRow, error) {
	if _, alone := q.(conn.Alone); alone && len(rows) > 0 {
		return rows, nil
	}
	return rows, err
}

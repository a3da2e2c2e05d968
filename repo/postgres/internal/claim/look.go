package claim

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

// A claim looks at the first plans of each Lane, without locks; chooses (rules.Choice); locks what it has chosen, and
// others in place of locked ones; and writes that. If the first plans were too few, it goes on behind them, look after
// look, in the same transaction.
const (
	// claimDepth and minClaimDepth are how many plans the first look reads in all lanes together, and in each, more than
	// it asks for, since other claims under way may have the first ones. So it does with claims that may have expired.
	claimDepth    = 256
	minClaimDepth = 16
	// farDepth is how many a further look reads in all that are left, and maxClaimLooks how many there are. The statements
	// have bounds for these.
	farDepth      = 2000
	maxClaimLooks = 64
	// A claim of all namespaces looks at a few lanes at once, and at others if these were not enough.
	laneRows   = 16
	laneRounds = 16
	// lockPause is the pause before a claim tries again after another one had the lock of a limit, and lockTries how often
	// it tries.
	lockPause = 2 * time.Millisecond
	lockTries = 8
)

// choosing is a claim that is made, in a transaction of its own, on the connection own, or in its caller's.
type choosing struct {
	rules.Choice

	claim repo.Claim
	q     db.DBTX
	own   *pgx.Conn
	begun bool

	// known are the namespaces whose limits were read. skipped: another transaction had the lock of one. byAction: some
	// are of actions.
	known             map[string]bool
	skipped, byAction bool
	seen              map[repo.ID]bool
	// last are the candidates whose claims have expired in their last attempt, held the claims that go on, and locked what
	// was locked.
	last   []rules.Candidate
	held   db.PlanClaimLaterParams
	locked map[repo.ID]db.PlanClaimLockRow
	ended  []rules.Candidate
	// first is since when the first plan has waited that was seen, and now the server's time.
	first, now time.Time
}

// claimPlans claims one plan for each owner, as far as there are any.
func claimPlans(ctx context.Context, q db.DBTX, claim repo.Claim, owners []string, heads *queueHeads,
	key string,
) ([]Claimed, error) {
	for try := 0; ; try++ {
		c := &choosing{
			Choice: rules.Choice{Rooms: rules.Rooms{}, Most: len(owners)}, claim: claim, q: q,
			known: map[string]bool{}, seen: map[repo.ID]bool{}, locked: map[repo.ID]db.PlanClaimLockRow{},
		}
		if alone, is := q.(conn.Alone); is {
			c.q, c.own = alone.Conn, alone.Conn
		}
		rows, err := c.make(ctx, owners, heads, key)
		if err != nil || len(rows) > 0 || !c.skipped || try == lockTries {
			return rows, err
		}
		select {
		case <-ctx.Done():
			return rows, nil // the caller looks at ctx
		case <-time.After(rand.N(2 * lockPause)):
		}
	}
}

func (c *choosing) make(ctx context.Context, owners []string, heads *queueHeads,
	key string,
) (rows []Claimed, err error) {
	if c.own != nil {
		defer conn.RollbackOpen(ctx, c.own)
	}
	if c.claim.AllNamespaces {
		err = c.anywhere(ctx, heads, key)
	} else {
		namespaces := drawn(c.claim)
		from, looked := heads.from(key)
		err = c.in(ctx, namespaces, LanesIn(c.claim, namespaces), from)
		if len(c.Taken) > 0 {
			looked(c.first)
		}
	}
	if err != nil {
		return nil, err
	}
	return c.write(ctx, owners)
}

// send sends statements, at first after the statements that begin the transaction. They leave a caller's as it is.
func (c *choosing) send(ctx context.Context, p *conn.Pipeline) error {
	if c.own == nil {
		return p.Send(ctx, c.q)
	}
	if !c.begun {
		begin := &conn.Pipeline{}
		begin.Begin(ctx)
		begin.Add(func(q db.DBTX) error { return queries.PlanByIndex(ctx, q) })
		p.Steps, c.begun = append(begin.Steps, p.Steps...), true
	}
	if err := p.Send(ctx, c.q); err != nil {
		return &conn.Answer{Err: conn.Translate(ctx, err, conn.Reading)}
	}
	return nil
}

// anywhere goes on where the last claim like it has ended, so that the namespaces take turns.
func (c *choosing) anywhere(ctx context.Context, heads *queueHeads, key string) error {
	after, first := heads.turn(key), ""
	for round := range laneRounds {
		var namespaces, others []string
		var lanes []Lane
		p := &conn.Pipeline{}
		p.Add(func(q db.DBTX) (err error) {
			namespaces, others, lanes, err = LanesAnywhere(ctx, q, c.claim, after, c.Most-len(c.Taken)+laneRows)
			return err
		})
		if err := c.send(ctx, p); err != nil || len(namespaces)+len(others) == 0 {
			return err
		}
		if round > 0 && (len(namespaces) == 0 || namespaces[0] == first) {
			return nil // once around
		}
		taken := len(c.Taken)
		if err := c.in(ctx, slices.Concat(namespaces, others), lanes, time.Time{}); err != nil || len(namespaces) == 0 {
			return err
		}
		if round == 0 {
			first = namespaces[0]
		}
		switch {
		case len(c.Taken) > taken:
			after = c.Taken[len(c.Taken)-1].Namespace
		case !c.IsFull(): // otherwise what did not fit is in one of these
			after = namespaces[len(namespaces)-1]
		}
		if heads.setTurn(key, after); c.IsFull() {
			return nil
		}
	}
	return nil
}

// open is how far a Lane, or the claims of a namespace that may have expired, were looked at: behind a plan that has
// waited since a time.
type open struct {
	Lane
	since time.Time
	after [16]byte
	rows  int // in the last look
}

// in takes plans of namespaces: of lanes from a time on, and plans whose claims have expired.
func (c *choosing) in(ctx context.Context, namespaces []string, lanes []Lane, from time.Time) error {
	c.Turns = namespaces
	queued, due := opened(lanes, from), make([]*open, len(namespaces))
	for i, namespace := range namespaces {
		due[i] = &open{Lane: Lane{namespace: namespace}}
	}
	depth := c.Most + max(minClaimDepth, claimDepth/max(len(queued), 1))
	window := c.Most + max(minClaimDepth, claimDepth/len(due))
	if from.IsZero() {
		// It looks at all. So it also looks for expired claims behind ones that cannot be taken: as long as plans are
		// queued, a claim would never miss them.
		window = max(window, farDepth/len(due))
	}
	for look := range maxClaimLooks {
		if err := c.look(ctx, queued, depth, due, window); err != nil {
			return err
		}
		if err := c.take(ctx); err != nil || c.IsFull() {
			return err
		}
		if look == 0 && c.byAction && len(c.claim.Actions) == 0 {
			// Plans of an action that is at its limit may hide plans of others.
			each, err := c.eachAction(ctx, lanes)
			if err != nil {
				return err
			}
			queued, depth = opened(each, time.Time{}), 0
		}
		queued = slices.DeleteFunc(queued, func(o *open) bool { return o.rows < depth || c.atLimit(o.Lane) })
		due = slices.DeleteFunc(due, func(o *open) bool { return o.rows < window })
		if len(queued)+len(due) == 0 {
			return nil
		}
		depth, window = max(minClaimDepth, farDepth/max(len(queued), 1)), max(minClaimDepth, farDepth/max(len(due), 1))
	}
	return nil
}

func opened(lanes []Lane, from time.Time) (queued []*open) {
	for _, l := range lanes {
		queued = append(queued, &open{Lane: l, since: from})
	}
	return queued
}

// eachAction returns lanes for each action in place of those for any.
func (c *choosing) eachAction(ctx context.Context, ofAny []Lane) (lanes []Lane, err error) {
	p := &conn.Pipeline{}
	p.Add(func(q db.DBTX) (err error) {
		lanes, err = actionLanes(ctx, q, ofAny)
		return err
	})
	err = c.send(ctx, p)
	return lanes, err
}

// atLimit reports whether a limit allows nothing of a lane.
func (c *choosing) atLimit(l Lane) bool {
	return !c.Rooms.Allow(rules.Candidate{Namespace: l.namespace, Action: l.action})
}

// look reads the next plans of lanes, and claims that may have expired, each up to so many.
func (c *choosing) look(ctx context.Context, queued []*open, depth int, due []*open, window int) error {
	p := &conn.Pipeline{}
	if unknown := slices.DeleteFunc(slices.Clone(c.Turns),
		func(name string) bool { return c.known[name] }); len(unknown) > 0 {
		c.limited(ctx, p, unknown)
		for _, namespace := range unknown {
			c.known[namespace] = true
		}
	}
	if len(due) > 0 {
		params := db.PlanClaimDueParams{LeaseNamespace: convert.LeaseNamespace, Depth: int32(window)}
		of := map[string]*open{}
		for _, o := range due {
			of[o.namespace], o.rows = o, 0
			params.Namespaces, params.Sinces = append(params.Namespaces, o.namespace), append(params.Sinces, o.since)
		}
		p.Add(func(q db.DBTX) error {
			rows, err := queries.PlanClaimDue(ctx, q, params)
			for _, row := range rows {
				of[row.Namespace].read(row.CheckAt, [16]byte{})
				c.expired(row)
			}
			return err
		})
	}
	if len(queued) > 0 {
		params := db.PlanClaimQueueParams{Depth: int32(depth)}
		for _, o := range queued {
			params.Namespaces, params.Phases, params.Actions = append(params.Namespaces, o.namespace),
				append(params.Phases, o.phase), append(params.Actions, o.action)
			params.Priorities = append(params.Priorities, o.priority)
			params.Sinces, params.Afters = append(params.Sinces, o.since),
				append(params.Afters, pgtype.UUID{Bytes: o.after, Valid: true})
			o.rows = 0
		}
		p.Add(func(q db.DBTX) error {
			rows, err := queries.PlanClaimQueue(ctx, q, params)
			for _, row := range rows {
				o := queued[row.Place-1]
				o.read(row.Since, row.PlanID.Bytes)
				if c.first.IsZero() || row.Since.Before(c.first) {
					c.first = row.Since
				}
				c.add(rules.Candidate{
					Plan: row.PlanID.Bytes, Phase: repo.Phase(o.phase), Namespace: o.namespace, Action: row.ActionName,
					Priority: int(o.priority),
					Since:    row.Since, Bytes: int(row.Bytes),
				})
			}
			return err
		})
	}
	return c.send(ctx, p)
}

// read notes a row of a look.
func (o *open) read(since time.Time, id [16]byte) {
	o.rows++
	if since.After(o.since) || since.Equal(o.since) && bytes.Compare(id[:], o.after[:]) > 0 {
		o.since, o.after = since, id
	}
}

// add adds a candidate, unless an earlier look has found it.
func (c *choosing) add(one rules.Candidate) {
	if !c.seen[one.Plan] {
		c.seen[one.Plan], c.Candidates = true, append(c.Candidates, one)
	}
}

// expired notes a claim that may have expired.
func (c *choosing) expired(row db.PlanClaimDueRow) {
	one := rules.Candidate{
		Plan: row.PlanID.Bytes, Phase: repo.Phase(row.Phase), Namespace: row.Namespace, Action: row.ActionName,
		Since:   row.CheckAt,
		Expired: true, Bytes: int(row.Bytes),
	}
	switch {
	case !rules.SelectsClaim(c.claim, one.Namespace, one.Phase, one.Action):
	case row.HeldUntil.After(row.CheckAt):
		c.held.Ids, c.held.HeldUntils = append(c.held.Ids, row.PlanID), append(c.held.HeldUntils, row.HeldUntil)
	case !row.IsLast:
		c.add(one)
	case !c.seen[one.Plan]:
		c.seen[one.Plan], c.last = true, append(c.last, one)
	}
}

// take locks candidates, until there are enough, or none is left that may be taken.
func (c *choosing) take(ctx context.Context) error {
	for {
		tries := c.Tries()
		if len(tries)+len(c.last) == 0 {
			return nil
		}
		ids := make([][]repo.ID, len(tries)+1)
		p := &conn.Pipeline{}
		for i, try := range append(tries, rules.Try{Of: c.last, Most: len(c.last)}) {
			if len(try.Of) == 0 {
				continue
			}
			params := db.PlanClaimLockParams{
				State: string(repo.PlanQueued), IsLast: i == len(tries),
				LeaseNamespace: convert.LeaseNamespace, Most: int32(try.Most),
			}
			if try.Of[0].Expired {
				params.State = string(repo.PlanProcessing)
			}
			for _, one := range try.Of {
				params.Ids, params.Phases = append(params.Ids, convert.UUID(one.Plan)), append(params.Phases, string(one.Phase))
			}
			p.Add(func(q db.DBTX) error {
				rows, err := queries.PlanClaimLock(ctx, q, params)
				for _, row := range rows {
					ids[i] = append(ids[i], row.ID.Bytes)
					c.locked[row.ID.Bytes], c.now = row, row.Now
				}
				return err
			})
		}
		if err := c.send(ctx, p); err != nil {
			return err
		}
		for i, try := range tries {
			c.Settle(try, ids[i])
		}
		c.ended = append(c.ended, slices.DeleteFunc(c.last,
			func(one rules.Candidate) bool { return !slices.Contains(ids[len(tries)], one.Plan) })...)
		c.last = nil
	}
}

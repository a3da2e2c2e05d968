package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
)

// A turn may make a plan and open a stream. The action is read before, by the caller, and has the same
// version when its row is locked. The keys of streams are locked as Open does.

// plannedUse is the plan of a turn, and the action as it was read. err is why there is none: it is the
// answer unless the turn is stored already.
type plannedUse struct {
	plan   repo.Plan
	action repo.Action
	err    error
}

// openStream is what is open under a key that is locked. Zero id: nothing.
type openStream struct {
	id, session repo.ID
	expired     bool
}

var (
	// errActionChanged: the action has another version than the caller has read.
	errActionChanged = errors.New("the action was changed meanwhile")
	// errKeyHeld: the stream is open, or somebody opens it. Only a transaction of its own may have to wait for that.
	errKeyHeld = errors.New("the stream is open already")
)

// plan reads the action that the turn uses.
func (c *turnCall) plan(ctx context.Context) error {
	a := c.item
	if a.Use == nil {
		return nil
	}
	action, err := c.sessions.usedAction(ctx, a.Action, a.plan != nil)
	if err == nil {
		a.plan = &plannedUse{action: action}
		a.plan.plan, a.plan.err = a.NewPlan(ctx, action)
	} else if !errors.Is(err, repo.ErrNotFound) {
		return err
	} else {
		a.plan = &plannedUse{err: err}
	}
	return ctx.Err()
}

// actionCache has actions as they were read. Whoever uses one finds out whether it has changed.
type actionCache struct {
	mu    sync.Mutex
	known map[repo.ActionName]repo.Action
}

const maxKnownActions = 1000

// usedAction returns an action. again: it has changed.
func (s *sessions) usedAction(ctx context.Context, name repo.ActionName, again bool) (repo.Action, error) {
	pool, cached := s.exec.(*pooled)
	if cached && !again {
		pool.actions.mu.Lock()
		action, known := pool.actions.known[name]
		pool.actions.mu.Unlock()
		if known {
			return action, nil
		}
	}
	action, err := (&actions{s.base}).get(ctx, name)
	if cached {
		pool.actions.mu.Lock()
		defer pool.actions.mu.Unlock()
		if delete(pool.actions.known, name); err != nil {
			return action, err
		}
		if len(pool.actions.known) >= maxKnownActions || pool.actions.known == nil {
			pool.actions.known = map[repo.ActionName]repo.Action{}
		}
		pool.actions.known[name] = action
	}
	return action, err
}

// lockWork adds the statements that lock actions, and the keys of streams, and read what is open under these.
func (l *ledger) lockWork(ctx context.Context, p *conn.Pipeline, waits bool) {
	l.waits = waits
	if names := slices.Sorted(maps.Keys(l.actions)); len(names) > 0 {
		if waits {
			p.Add(func(q db.DBTX) error { return queries.TurnAwaitActions(ctx, q, names) })
		}
		p.Add(func(q db.DBTX) error {
			rows, err := queries.TurnFindActions(ctx, q, names)
			for _, row := range rows {
				l.actions[row.Name] = row.Version
			}
			return err
		})
	}
	keys := slices.Sorted(maps.Keys(l.streams))
	if len(keys) == 0 {
		return
	}
	namespaces, names := splitViews(keys)
	p.Add(func(q db.DBTX) error {
		got, err := queries.TurnLockStreams(ctx, q, db.TurnLockStreamsParams{Namespaces: namespaces, Keys: names, Waits: waits})
		for _, place := range got {
			l.streams[keys[place-1]] = &openStream{}
		}
		return err
	})
	p.Add(func(q db.DBTX) error {
		rows, err := queries.TurnFindStreams(ctx, q, db.TurnFindStreamsParams{Namespaces: namespaces, Keys: names})
		for _, row := range rows {
			if key := keys[row.Place-1]; l.streams[key] != nil {
				l.streams[key] = &openStream{row.ID.Bytes, row.SessionID.Bytes, row.Expired}
			}
		}
		return err
	})
}

// splitViews is rules.SplitView for many names.
func splitViews(all []string) (namespaces, names []string) {
	for _, one := range all {
		namespace, name := rules.SplitView(one)
		namespaces, names = append(namespaces, namespace), append(names, name)
	}
	return namespaces, names
}

// checkWork returns why a turn cannot make its plan, or open its stream.
func (l *ledger) checkWork(a *turn) error {
	if a.plan != nil {
		if version := l.actions[a.Action.String()]; a.plan.action.Version != version { // both are 0 if there is none
			return errActionChanged
		}
		if a.plan.err != nil {
			return a.plan.err
		}
	}
	if a.Open == nil {
		return nil
	}
	for _, before := range l.working { // its stream is not there yet
		if open := before.Open; open != nil && open.Key == a.Open.Key && before.SessionID != a.SessionID {
			return rules.StreamOfOther(open.Key, before.opener)
		}
	}
	switch open := l.streams[a.Open.Key]; {
	case open == nil:
		return errKeyHeld
	case open.id.IsZero():
		return nil
	case !open.expired && open.session != a.SessionID:
		return rules.StreamOfOther(a.Open.Key, open.id)
	case !l.waits: // its row may be locked
		return errKeyHeld
	}
	return nil
}

// writeWork adds the statements that make plans and open streams: one for all plans, and one for all streams
// whose keys have none that is open.
func (l *ledger) writeWork(ctx context.Context, p *conn.Pipeline) {
	if len(l.working) == 0 {
		return
	}
	var check db.TurnCheckWorkParams
	var making []db.PlanCreateParams
	var opening db.TurnOpenStreamsParams
	made := map[repo.ID]*turn{}     // by the ids of plans and of streams
	openers := map[string]repo.ID{} // the last of each key
	var others []*turn
	for _, a := range l.working {
		if a.plan != nil {
			plan := a.plan.plan
			plan.SessionID = a.SessionID
			use := *a.Use
			use.SessionID = a.SessionID
			a.outcome.plan, made[plan.ID] = &plan, a
			making = append(making, planParams(plan, a.plan.action, use))
			check.PlanIds = append(check.PlanIds, toUUID(plan.ID))
		}
		open := a.Open
		if open == nil {
			continue
		}
		if _, twice := openers[open.Key]; twice || !l.streams[open.Key].id.IsZero() {
			others = append(others, a)
		} else {
			made[a.opener] = a
			namespace, key := rules.SplitView(open.Key)
			opening.Ids, opening.Namespaces = append(opening.Ids, toUUID(a.opener)), append(opening.Namespaces, namespace)
			opening.Keys = append(opening.Keys, key)
			opening.Owners, opening.SessionIds = append(opening.Owners, open.Owner), append(opening.SessionIds, toUUID(a.SessionID))
			opening.Ttls = append(opening.Ttls, pgtype.Interval{Microseconds: open.TTL.Microseconds(), Valid: true})
		}
		openers[open.Key] = a.opener
	}
	if len(making) > 0 {
		text, _ := json.Marshal(making) //nolint:errchkjson // texts and numbers, which were checked
		p.Add(func(q db.DBTX) error {
			rows, err := queries.TurnCreatePlans(ctx, q, string(text))
			for _, row := range rows {
				a := made[row.ID.Bytes]
				afterUse(a.outcome.plan, db.PlanCreateRow{CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt}, a.plan.action)
			}
			return err
		})
	}
	if len(opening.Ids) > 0 {
		p.Add(func(q db.DBTX) error {
			rows, err := queries.TurnOpenStreams(ctx, q, opening)
			for _, row := range rows {
				a := made[row.ID.Bytes]
				a.outcome.stream = newlyOpened(*a.Open, a.SessionID)
				a.outcome.stream.ID, a.outcome.stream.Fence = row.ID.Bytes, row.Fence
				a.outcome.stream.OpenedAt, a.outcome.stream.ExpiresAt = row.OpenedAt.UTC(), row.ExpiresAt.UTC()
			}
			return err
		})
	}
	for _, a := range others {
		l.open(ctx, p, a)
	}
	for key, opener := range openers {
		namespace, key := rules.SplitView(key)
		check.Namespaces = append(check.Namespaces, namespace)
		check.Keys, check.Openers = append(check.Keys, key), append(check.Openers, toUUID(opener))
	}
	p.Add(func(q db.DBTX) error { return queries.TurnCheckWork(ctx, q, check) })
}

// newlyOpened returns a stream without what the database decides.
func newlyOpened(open repo.NewStream, session repo.ID) *repo.Stream {
	return &repo.Stream{Key: open.Key, Session: session, Owner: open.Owner, Status: repo.StreamOpen, TTL: open.TTL}
}

// open adds the statements that open a stream whose key may have one.
func (l *ledger) open(ctx context.Context, p *conn.Pipeline, a *turn) {
	open := *a.Open
	open.Session = a.SessionID
	stream := newlyOpened(open, open.Session)
	namespace, key := rules.SplitView(open.Key)
	p.Add(func(q db.DBTX) error {
		return queries.StreamLapse(ctx, q, db.StreamLapseParams{Namespace: namespace, Key: key})
	})
	p.Add(func(q db.DBTX) error {
		row, err := queries.StreamOpen(ctx, q, streamOpenParams(namespace, key, open, a.opener))
		stream.ID, stream.Fence, stream.OpenedAt, stream.ExpiresAt = row.ID.Bytes, row.Fence, row.OpenedAt.UTC(), row.ExpiresAt.UTC()
		a.outcome.stream = stream
		return err
	})
	if open.Restart {
		p.Add(func(q db.DBTX) error {
			return queries.StreamRestart(ctx, q, db.StreamRestartParams{Namespace: namespace, Key: key, Opener: toUUID(a.opener)})
		})
	}
	p.Add(func(q db.DBTX) error {
		next, err := queries.StreamNext(ctx, q, db.StreamNextParams{Namespace: namespace, Key: key})
		stream.Next = next.NextSequence
		return err
	})
}

// work adds to the result of a turn that is stored its plan and its stream, as they are now.
func (s *sessions) work(ctx context.Context, t *rules.Turn, plan repo.ID, result *repo.AppendedTurn) error {
	if !plan.IsZero() {
		stored, err := (&plans{s.base}).Get(ctx, plan)
		if err == nil {
			result.Plan = &stored
		} else if !errors.Is(err, repo.ErrNotFound) {
			return err
		}
	}
	if t == nil || t.Open == nil {
		return nil
	}
	stream, err := (&streams{s.base}).Get(ctx, rules.OutOfView(t.Open.Key))
	if err == nil {
		stream.Fence = 0
		result.Stream = &stream
	} else if errors.Is(err, repo.ErrNotFound) {
		err = nil
	}
	return err
}

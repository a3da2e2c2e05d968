package write

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

// A turn may make a plan and open a stream. The action is read before, by the caller, and has the same
// version when its row is locked. The keys of streams are locked as Open does.

// PlannedUse is the plan of a turn, and the action as it was read. Err is why there is none: it is the
// answer unless the turn is stored already.
type PlannedUse struct {
	Plan   repo.Plan
	Action repo.Action
	Err    error
}

// openStream is what is open under a key that is locked. Zero id: nothing.
type openStream struct {
	id, session repo.ID
	expired     bool
}

var (
	// ErrActionChanged says that the action has another version than the caller has read.
	ErrActionChanged = errors.New("the action was changed meanwhile")
	// ErrKeyLocked says that the stream is open, or is being opened. Only a transaction of its own may have to wait for
	// that.
	ErrKeyLocked = errors.New("the stream is open already")
)

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
		got, err := queries.TurnLockStreams(ctx, q, db.TurnLockStreamsParams{
			Namespaces: namespaces, Keys: names,
			Waits: waits,
		})
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
func (l *ledger) checkWork(a *Turn) error {
	if a.Plan != nil {
		if version := l.actions[a.Action.String()]; a.Plan.Action.Version != version { // both are 0 if there is none
			return ErrActionChanged
		}
		if a.Plan.Err != nil {
			return a.Plan.Err
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
		return ErrKeyLocked
	case open.id.IsZero():
		return nil
	case !open.expired && open.session != a.SessionID:
		return rules.StreamOfOther(a.Open.Key, open.id)
	case !l.waits: // its row may be locked
		return ErrKeyLocked
	}
	return nil
}

// writeWork adds the statements that make plans and open streams: one for all plans, and one for all streams
// whose keys have none that is open.
func (l *ledger) writeWork(ctx context.Context, p *conn.Pipeline) {
	if len(l.working) == 0 {
		return
	}
	check := db.TurnCheckWorkParams{PlanIds: l.makePlans(ctx, p)}
	var opening []*Turn
	var others []*Turn
	openers := map[string]repo.ID{} // the last of each key
	for _, a := range l.working {
		if a.Open == nil {
			continue
		}
		if _, twice := openers[a.Open.Key]; twice || !l.streams[a.Open.Key].id.IsZero() {
			others = append(others, a)
		} else {
			opening = append(opening, a)
		}
		openers[a.Open.Key] = a.opener
	}
	openNew(ctx, p, opening)
	for _, a := range others {
		openAgain(ctx, p, a)
	}
	for key, opener := range openers {
		namespace, key := rules.SplitView(key)
		check.Namespaces = append(check.Namespaces, namespace)
		check.Keys, check.Openers = append(check.Keys, key), append(check.Openers, convert.UUID(opener))
	}
	p.Add(func(q db.DBTX) error { return queries.TurnCheckWork(ctx, q, check) })
}

// makePlans adds the statement that makes the plans of turns, and returns their ids.
func (l *ledger) makePlans(ctx context.Context, p *conn.Pipeline) (ids []pgtype.UUID) {
	var making []db.PlanCreateParams
	made := map[repo.ID]*Turn{}
	for _, a := range l.working {
		if a.Plan == nil {
			continue
		}
		plan, use := a.Plan.Plan, *a.Use
		plan.SessionID, use.SessionID = a.SessionID, a.SessionID
		a.Outcome.Plan, made[plan.ID] = &plan, a
		making = append(making, convert.PlanParams(plan, a.Plan.Action, use))
		ids = append(ids, convert.UUID(plan.ID))
	}
	if len(making) == 0 {
		return nil
	}
	text, _ := json.Marshal(making) //nolint:errchkjson // texts and numbers, which were checked
	p.Add(func(q db.DBTX) error {
		rows, err := queries.TurnCreatePlans(ctx, q, string(text))
		for _, row := range rows {
			a := made[row.ID.Bytes]
			convert.AfterUse(a.Outcome.Plan, db.PlanCreateRow{CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt}, a.Plan.Action)
		}
		return err
	})
	return ids
}

// openNew adds the statement that opens streams whose keys have none.
func openNew(ctx context.Context, p *conn.Pipeline, turns []*Turn) {
	if len(turns) == 0 {
		return
	}
	var params db.TurnOpenStreamsParams
	opened := map[repo.ID]*Turn{}
	for _, a := range turns {
		opened[a.opener] = a
		namespace, key := rules.SplitView(a.Open.Key)
		params.Ids, params.Namespaces = append(params.Ids, convert.UUID(a.opener)), append(params.Namespaces, namespace)
		params.Keys, params.Owners = append(params.Keys, key), append(params.Owners, a.Open.Owner)
		params.SessionIds = append(params.SessionIds, convert.UUID(a.SessionID))
		params.Ttls = append(params.Ttls, pgtype.Interval{Microseconds: a.Open.TTL.Microseconds(), Valid: true})
	}
	p.Add(func(q db.DBTX) error {
		rows, err := queries.TurnOpenStreams(ctx, q, params)
		for _, row := range rows {
			a := opened[row.ID.Bytes]
			a.Outcome.Stream = newlyOpened(*a.Open, a.SessionID)
			a.Outcome.Stream.ID, a.Outcome.Stream.Fence = row.ID.Bytes, row.Fence
			a.Outcome.Stream.OpenedAt, a.Outcome.Stream.ExpiresAt = row.OpenedAt.UTC(), row.ExpiresAt.UTC()
		}
		return err
	})
}

// newlyOpened returns a stream without what the database decides.
func newlyOpened(open repo.NewStream, session repo.ID) *repo.Stream {
	return &repo.Stream{Key: open.Key, Session: session, Owner: open.Owner, Status: repo.StreamOpen, TTL: open.TTL}
}

// openAgain adds the statements that open a stream whose key may have one.
func openAgain(ctx context.Context, p *conn.Pipeline, a *Turn) {
	open := *a.Open
	open.Session = a.SessionID
	namespace, key := rules.SplitView(open.Key)
	a.Outcome.Stream, _ = OpenStream(ctx, p, namespace, key, open, a.opener)
}

// OpenStream adds the statements that open a stream whose key is locked (StreamTurn), and returns where it is then.
func OpenStream(
	ctx context.Context, p *conn.Pipeline, namespace, key string, open repo.NewStream, opener repo.ID,
) (stream *repo.Stream, next *db.StreamNextRow) {
	stream, next = newlyOpened(open, open.Session), &db.StreamNextRow{}
	conn.Do(ctx, p, queries.StreamLapse, db.StreamLapseParams{Namespace: namespace, Key: key})
	p.Add(func(q db.DBTX) error {
		row, err := queries.StreamOpen(ctx, q, db.StreamOpenParams{
			ID: convert.UUID(opener), Namespace: namespace, Key: key, Owner: open.Owner, TtlSeconds: open.TTL.Seconds(),
			SessionID: convert.OptionalUUID(open.Session),
		})
		stream.ID, stream.Session, stream.Fence = row.ID.Bytes, row.SessionID.Bytes, row.Fence
		stream.OpenedAt, stream.ExpiresAt = row.OpenedAt.UTC(), row.ExpiresAt.UTC()
		return err
	})
	if open.Restart {
		params := db.StreamRestartParams{Namespace: namespace, Key: key, Opener: convert.UUID(opener)}
		conn.Do(ctx, p, queries.StreamRestart, params)
	}
	p.Add(func(q db.DBTX) (err error) {
		*next, err = queries.StreamNext(ctx, q, db.StreamNextParams{Namespace: namespace, Key: key})
		stream.Next = next.NextSequence
		return err
	})
	return stream, next
}

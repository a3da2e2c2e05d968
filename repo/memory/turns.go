package memory

import (
	"context"
	"time"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// storedTurn is what is kept of a turn that has a key.
type storedTurn struct {
	digest []byte
	// first is the sequence of the first message, and count the number of the messages.
	first, count int64
	// plan is the plan that it has made. Zero: none.
	plan repo.ID
	at   time.Time
}

func (s storedTurn) messages(r *sessionRow) []*repo.Message {
	return r.messages[s.first : s.first+s.count]
}

func (s sessions) Turn(ctx context.Context, sessionID repo.ID, id string) (repo.AppendedTurn, error) {
	return runOn(ctx, unless(rules.CheckTurnID(id), s.read), s.session, sessionID,
		func(t *tables, r *sessionRow) (repo.AppendedTurn, error) {
			stored := r.turns.get(id)
			if stored == nil {
				return repo.AppendedTurn{}, &repo.NotFoundError{Kind: "turn", Name: id}
			}
			return s.repeated(t, &rules.Turn{SessionID: sessionID}, stored.messages(r), stored.plan), nil
		})
}

// AppendTurn checks the turn outside of the lock. So it does so again if the key that names the session has another one
// by then.
func (s sessions) AppendTurn(ctx context.Context, given repo.Turn) (result repo.AppendedTurn, err error) {
	key, named := rules.KeyOfTurn(s.options.view, given)
	for id := repo.NewID(); ; {
		turn, err := rules.NormalizeTurn(s.options.view, given, id)
		if err != nil {
			return result, err
		}
		s.counter().Add(turn.Messages)
		again := false
		result, err = run(ctx, s.write, func(t *tables) (result repo.AppendedTurn, err error) {
			if stored := t.byKey.get(key); named && stored != nil && *stored != id {
				id, again = *stored, true
			} else if named && stored == nil && t.deletedIDs.get(id) != nil {
				id, again = repo.NewID(), true
			} else {
				result, err = s.appendTurn(ctx, t, turn)
			}
			return result, err
		})
		if err != nil || !again {
			return result, err
		}
	}
}

// appendTurn decides first, and then changes what was decided.
func (s sessions) appendTurn(ctx context.Context, t *tables, turn *rules.Turn) (repo.AppendedTurn, error) {
	now := t.now()
	r, err := s.sessionOf(t, turn, now)
	if err != nil {
		return repo.AppendedTurn{}, err
	}
	messages := messagesOf(turn.SessionID, turn.Messages, now)
	var known []*repo.Message
	if turn.Repeatable {
		known = r.stored(messages)
	}
	if again, is, err := s.again(t, turn, r, known); is || err != nil {
		return again, err
	}
	made, err := turn.Add(t.rows(turn, r, known, now))
	if err != nil {
		return repo.AppendedTurn{}, err
	}
	plan, action, err := t.planOf(ctx, turn)
	if err == nil && turn.Open != nil {
		err = t.checkOpen(*turn.Open)
	}
	if err != nil {
		return repo.AppendedTurn{}, err
	}
	result := repo.AppendedTurn{SessionID: turn.SessionID, Created: t.sessions.get(r.ID) == nil, Scopes: made.Scopes}
	if result.Created {
		s.insert(t, r, now, `{}`)
	}
	r.addTurn(turn, messages, now)
	for i := range messages {
		result.Messages = append(result.Messages, copyMessage(&messages[i]))
	}
	if plan != nil {
		row := t.insertPlan(*plan, *action, *turn.Use)
		r.link(row.ID)
		result.Plan = new(planOf(row))
	}
	if turn.Open != nil {
		result.Stream = new(t.openStream(*turn.Open, now))
	}
	t.writeState(made.Scopes, made.Values, now)
	if made.AddsUsage {
		r.addUsage(*turn.Usage, made.Usage)
	}
	if turn.Usage != nil {
		result.Usage = &made.Usage
	}
	rules.TurnOutOfView(&result)
	return result, nil
}

// sessionOf returns the session of a turn to be changed. One that the turn creates is in no table yet.
func (s sessions) sessionOf(t *tables, turn *rules.Turn, now time.Time) (*sessionRow, error) {
	if t.sessions.get(turn.SessionID) == nil && turn.Create != nil {
		if taken := s.taken(t, *turn.Create); len(taken) > 0 {
			return nil, rules.KeyTaken(taken[0].ID)
		}
		return t.newSession(*turn.Create, now)
	}
	r, err := s.editSession(t, turn.SessionID)
	if err != nil && turn.Create != nil { // it exists
		err = rules.InOtherNamespace(turn.SessionID)
	}
	return r, err
}

// again returns the result of a turn if it is stored already. known are its stored messages.
func (s sessions) again(t *tables, turn *rules.Turn, r *sessionRow,
	known []*repo.Message,
) (result repo.AppendedTurn, is bool, err error) {
	stored := r.turns.get(turn.ID)
	if stored == nil {
		stored = &storedTurn{}
	}
	if is, err = turn.Again(stored.digest, known != nil); err != nil || !is {
		return result, is, err
	}
	if turn.ID != "" {
		return s.repeated(t, turn, stored.messages(r), stored.plan), true, nil
	}
	result = s.repeated(t, turn, known, repo.ID{})
	return result, true, rules.AppendConflict(turn.SessionID, turn.Messages, result.Messages)
}

// addTurn adds the messages of a turn, moves the head, and keeps the turn's key.
func (r *sessionRow) addTurn(turn *rules.Turn, messages []repo.Message, now time.Time) {
	if turn.ID != "" {
		r.turns.put(turn.ID, &storedTurn{
			digest: turn.Digest[:], first: int64(len(r.messages)), count: int64(len(messages)),
			plan: turn.PlanID, at: now,
		})
	}
	r.follows = rules.Follows(turn.After, r.follows, r.next())
	r.add(messages)
	if turn.After != nil || len(messages) > 0 {
		r.touch(now)
	}
}

// planOf returns the plan that a turn makes, and its action. Nil: none.
func (t *tables) planOf(ctx context.Context, turn *rules.Turn) (*repo.Plan, *repo.Action, error) {
	if turn.Use == nil {
		return nil, nil, nil
	}
	action, err := t.action(turn.Action)
	if err != nil {
		return nil, nil, err
	}
	plan, err := turn.NewPlan(ctx, *action)
	return &plan, action, err
}

// rows returns what a turn depends on. known are its stored messages.
func (t *tables) rows(turn *rules.Turn, r *sessionRow, known []*repo.Message, now time.Time) *rules.TurnRows {
	rows := &rules.TurnRows{
		Fence: t.fenceOf(r, turn.Fence), Next: r.next(), Head: rules.Head(r.follows, r.next()), Usage: r.Usage,
		Budget: r.Budget,
	}
	if len(known) > 0 {
		rows.Known = known[0].ID
	}
	if turn.After != nil {
		m, _ := r.at(*turn.After)
		rows.HasAfter = m != nil
	}
	if turn.Usage != nil {
		rows.AddedUsage = r.usages.get(turn.Usage.ID)
	}
	t.readState(turn.State, now, rows)
	return rows
}

// repeated returns the result of a turn that is stored.
func (s sessions) repeated(t *tables, turn *rules.Turn, messages []*repo.Message, plan repo.ID) repo.AppendedTurn {
	result := repo.AppendedTurn{SessionID: turn.SessionID, Repeated: true}
	if len(messages) > 0 {
		result.Messages = each(messages, copyMessage)
	}
	if row, missing := s.plan(t, plan); missing == nil {
		result.Plan = new(planOf(row))
	}
	if turn.Open != nil {
		if row := t.newestStream(turn.Open.Key); row != nil && row.ExpiresAt.After(t.now()) {
			stream := row.Stream
			stream.Fence = 0
			result.Stream = &stream
		}
	}
	versions := map[repo.Scope]int64{}
	for _, scope := range turn.State.Scopes {
		if scope.Changed {
			versions[scope.Scope] = t.scopeOf(scope.Scope).version
		}
	}
	if len(versions) > 0 {
		result.Scopes = turn.State.Versions(versions)
	}
	if turn.Usage != nil {
		result.Usage = new(t.sessions.get(turn.SessionID).Usage)
	}
	rules.TurnOutOfView(&result)
	return result
}

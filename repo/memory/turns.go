package memory

import (
	"context"
	"encoding/json"
	"time"

	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// storedTurn is what is kept of a turn that has a key.
type storedTurn struct {
	digest []byte
	// first is the sequence of the first message, and count the number of the messages.
	first, count int64
	// plan is the one that it has made. Zero: none.
	plan repo.ID
	at   time.Time
}

func (s storedTurn) messages(r *sessionRow) []*repo.Message {
	return r.messages[s.first : s.first+s.count]
}

func (s sessions) Turn(ctx context.Context, sessionID repo.ID, id string) (repo.AppendedTurn, error) {
	return runOn(ctx, unless(rules.CheckTurnID(id), s.read), s.session, sessionID, func(t *tables, r *sessionRow) (repo.AppendedTurn, error) {
		stored := r.turns.get(id)
		if stored == nil {
			return repo.AppendedTurn{}, &repo.NotFoundError{Kind: "turn", Name: id}
		}
		return s.repeated(t, &rules.Turn{SessionID: sessionID}, stored.messages(r), stored.plan), nil
	})
}

// AppendTurn checks the turn outside of the lock. So it does so again if the key that names the session has another one by then.
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
func (s sessions) appendTurn(ctx context.Context, t *tables, turn *rules.Turn) (result repo.AppendedTurn, err error) {
	now := t.now()
	var r *sessionRow
	if t.sessions.get(turn.SessionID) == nil && turn.Create != nil {
		if taken := t.taken(turn.SessionID, repo.SessionKey{Namespace: turn.Create.Namespace, Key: turn.Create.Key}); len(taken) > 0 {
			return result, rules.KeyTaken(taken[0].ID)
		}
		if t.deletedIDs.get(turn.SessionID) != nil {
			return result, rules.SessionDeleted(turn.SessionID)
		}
		r = &sessionRow{Session: copySession(rules.StoredSession(*turn.Create, now, now))}
		result.Created = true
	} else if r, err = s.editSession(t, turn.SessionID); err != nil {
		if turn.Create != nil { // it exists
			err = rules.InOtherNamespace(turn.SessionID)
		}
		return result, err
	}
	messages := make([]repo.Message, len(turn.Messages))
	for i := range messages {
		messages[i] = rules.StoredMessage(turn.Messages[i], turn.SessionID, 0, now) // normalized: a copy already
	}
	stored := r.turns.get(turn.ID)
	var known []*repo.Message
	if turn.Repeatable {
		known = r.stored(messages)
	}
	var digest []byte
	if stored != nil {
		digest = stored.digest
	}
	if again, err := turn.Again(digest, known != nil); err != nil {
		return repo.AppendedTurn{}, err
	} else if again && turn.ID != "" {
		return s.repeated(t, turn, stored.messages(r), stored.plan), nil
	} else if again {
		repeated := s.repeated(t, turn, known, repo.ID{})
		return repeated, rules.AppendConflict(turn.SessionID, turn.Messages, repeated.Messages)
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
	result.SessionID = turn.SessionID
	if result.Created {
		t.insertSession(r)
		s.recordSession(t, now, repo.AuditEntry{
			Type: events.SessionCreated, Namespace: r.Namespace, Actor: r.Actor, SessionID: r.ID, Details: json.RawMessage(`{}`),
		})
	}
	if turn.ID != "" {
		r.turns.put(turn.ID, &storedTurn{digest: turn.Digest[:], first: int64(len(r.messages)), count: int64(len(messages)), plan: turn.PlanID, at: t.now()})
	}
	if turn.After != nil {
		r.follows = rules.Follows(turn.After, r.follows, r.next())
		r.touch(now)
	}
	if len(messages) > 0 {
		r.add(messages)
		r.touch(now)
		for i := range messages {
			result.Messages = append(result.Messages, copyMessage(&messages[i]))
		}
	}
	if plan != nil {
		row := t.insertPlan(*plan, *action, *turn.Use)
		r.link(row.ID)
		stored := planOf(row)
		result.Plan = &stored
	}
	if turn.Open != nil {
		stream := t.openStream(*turn.Open, now)
		result.Stream = &stream
	}
	t.writeState(made, now)
	result.Scopes = made.Scopes
	if turn.Usage != nil {
		if made.AddsUsage {
			u := turn.Usage
			r.Usage = made.Usage
			r.usages.put(u.ID, &repo.Usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, Cost: u.Cost})
		}
		result.Usage = &made.Usage
	}
	rules.TurnOutOfView(&result)
	return result, nil
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

// rows returns what a turn depends on. known are those of its messages that are stored.
func (t *tables) rows(turn *rules.Turn, r *sessionRow, known []*repo.Message, now time.Time) *rules.TurnRows {
	rows := &rules.TurnRows{
		Fence: t.fenceOf(r, turn.Fence), Next: r.next(), Head: rules.Head(r.follows, r.next()), Usage: r.Usage, Budget: r.Budget, Now: now,
	}
	if now.UnixMicro() <= t.lastErased { // within one reading of the clock
		rows.Now = time.UnixMicro(t.lastErased + 1)
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
	for _, scope := range turn.State.Scopes {
		var version int64
		if stored := t.scopes.get(scope.Scope); stored != nil {
			version = stored.version
		}
		rows.Versions = append(rows.Versions, version)
	}
	for _, change := range turn.State.Changes {
		var value *repo.StateValue
		if stored := t.scopes.get(change.Scope); stored != nil {
			value = stored.values.get(change.Key)
		}
		rows.Values = append(rows.Values, value)
	}
	return rows
}

func (t *tables) writeState(made rules.TurnChanges, now time.Time) {
	for _, scope := range made.Scopes {
		t.editScope(scope.Scope).version = scope.Version
	}
	for _, w := range made.Values {
		r := t.scopes.get(w.Scope)
		if w.Value == nil {
			r.values.remove(w.Key)
		} else {
			r.values.put(w.Key, &repo.StateValue{Key: w.Key, Value: w.Value, Version: w.Version, UpdatedAt: now})
		}
	}
}

// repeated returns the result of a turn that is stored.
func (s sessions) repeated(t *tables, turn *rules.Turn, messages []*repo.Message, plan repo.ID) repo.AppendedTurn {
	result := repo.AppendedTurn{SessionID: turn.SessionID, Repeated: true}
	if len(messages) > 0 {
		result.Messages = each(messages, copyMessage)
	}
	if row, missing := s.plan(t, plan); missing == nil {
		stored := planOf(row)
		result.Plan = &stored
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
			versions[scope.Scope] = 0
			if r := t.scopes.get(scope.Scope); r != nil {
				versions[scope.Scope] = r.version
			}
		}
	}
	if len(versions) > 0 {
		result.Scopes = turn.State.Versions(versions)
	}
	if turn.Usage != nil {
		usage := t.sessions.get(turn.SessionID).Usage
		result.Usage = &usage
	}
	rules.TurnOutOfView(&result)
	return result
}

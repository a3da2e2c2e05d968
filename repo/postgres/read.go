package postgres

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

// A read of sessions looks in one round trip, with a statement for all sessions, one for all messages, and one for all
// states. On the pool they see one snapshot. In a transaction each may see what was committed before it: in front of
// the states their versions are read, and the sessions again, and if they are others, all is. What a session has of
// messages never changes, nor does a state with its version, so that everything is of the moment of the versions. What
// takes long, the states, comes after that moment: however often others write, a read gets to its end. A second round
// trip has messages that are found by their path, and messages for which only Go knows that there is room.

func (s *sessions) Read(ctx context.Context, read repo.ReadSessions) (repo.Snapshot, error) {
	read, err := rules.NormalizeRead(read)
	if err != nil {
		return repo.Snapshot{}, err
	}
	others, err := s.others(ctx, read.IDs...)
	if err != nil {
		return repo.Snapshot{}, err
	}
	if len(others) > 0 { // in their places it reads sessions that do not exist
		read.IDs = convert.Each(read.IDs, func(id repo.ID) repo.ID {
			if _, is := others[id]; is {
				return repo.NewID()
			}
			return id
		})
	}
	r := &reading{sessions: s, read: read, ids: convert.UUIDs(read.IDs), most: int64(max(read.First, read.Last))}
	if r.room = r.most; read.Tokens > 0 {
		r.room += rules.MaxInstructions
	}
	r.byPath = read.Tokens > 0 || read.Branches || !read.Since.IsZero() || slices.ContainsFunc(read.IDs, s.exec.branched)
	for gaps, found := 0, 0; ; {
		snapshot, err := r.attempt(ctx)
		if isGap(err) {
			gaps++
			if len(r.heads) != found { // a session was deleted
				gaps, found = 1, len(r.heads)
			}
		}
		if again := errors.Is(err, errMoved) || isGap(err) && gaps < gapAttempts; !again {
			return snapshot, err
		}
		r.byPath = true // so that little is read before what must not move
	}
}

// gapAttempts are how many attempts find messages missing, of as many sessions: a fork's inherited messages are
// given to another session when theirs is deleted.
const gapAttempts = 3

// errMoved: the statements of a read saw different sessions.
var errMoved = errors.New("the sessions have changed")

// reading is a read of sessions.
type reading struct {
	*sessions
	read repo.ReadSessions
	ids  []pgtype.UUID
	most int64 // messages of each session are asked for, and there is room for as many
	room int64
	// byPath: the ranges of messages are found first, and messages read by them.
	byPath bool
	// These are what an attempt has read, and after is heads at its end.
	heads, after []db.SessionReadHeadsRow
	path         []db.SessionReadPathRow
	prompt       []db.SessionReadPromptRow
	messages     messageScanner
	state        []db.SessionReadStateRow
	// versions are the versions that the states had when the sessions were read. Nil: all was read at one moment.
	versions map[repo.Scope]int64
}

func (r *reading) attempt(ctx context.Context) (repo.Snapshot, error) {
	if err := r.look(ctx); err != nil {
		return repo.Snapshot{}, err
	}
	branched := false
	for i := range r.heads {
		if head := &r.heads[i]; head.Branched {
			branched = true
			r.exec.branch(head.Session.ID.Bytes)
		}
	}
	if !reflect.DeepEqual(r.heads, r.after) || branched && r.most > 0 && !r.byPath {
		return repo.Snapshot{}, errMoved
	}
	snapshot := repo.Snapshot{
		Sessions: make([]*repo.SessionSnapshot, len(r.ids)),
		Scopes:   make([]repo.ScopeState, len(r.read.Scopes)),
	}
	for i := range r.heads {
		head := &r.heads[i]
		snapshot.Sessions[head.Place-1] = &repo.SessionSnapshot{
			Messages: []repo.Message{},
			Session: convert.Session(r.view, db.SessionGetRow{
				Session: head.Session, ChangedAt: head.ChangedAt, NextSequence: head.NextSequence, FencedOnly: head.FencedOnly,
				Plans: head.Plans,
			}),
		}
	}
	for i, session := range snapshot.Sessions {
		if session == nil {
			_ = r.exec.noted(convert.SessionNotFound(r.read.IDs[i]))
		}
	}
	if err := r.addState(&snapshot); err != nil {
		return repo.Snapshot{}, err
	}
	if !r.hasVersions(&snapshot) {
		return repo.Snapshot{}, errMoved
	}
	if r.most > 0 {
		if err := r.addMessages(ctx, &snapshot); err != nil {
			return repo.Snapshot{}, err
		}
	}
	return snapshot, nil
}

// look reads what is read in one round trip.
func (r *reading) look(ctx context.Context) error {
	steps := &conn.Pipeline{}
	steps.Add(func(q db.DBTX) (err error) {
		r.heads, err = queries.SessionReadHeads(ctx, q, r.ids)
		r.after = r.heads
		return err
	})
	switch {
	case r.most == 0:
	case r.read.Tokens > 0:
		params := db.SessionReadPromptParams{Ids: r.ids, Most: r.most, Tokens: r.read.Tokens}
		conn.Ask(ctx, steps, &r.prompt, queries.SessionReadPrompt, params)
	case r.byPath:
		params := db.SessionReadPathParams{
			Ids: r.ids, FromSequence: r.read.From, Branches: r.read.Branches,
			Since: convert.UnlessZero(r.read.Since),
		}
		if r.read.Last > 0 && !r.read.Branches {
			params.Most = &r.most
		}
		conn.Ask(ctx, steps, &r.path, queries.SessionReadPath, params)
	default:
		steps.Add(r.scan(ctx, &r.messages, r.whole(), limits.MaxReadBytes))
	}
	moment, states := &conn.Pipeline{}, &conn.Pipeline{}
	scopes := r.scopes()
	if len(scopes) > 0 {
		// Each scope may have a row without a key, and one key more shows that there are too many.
		params := db.SessionReadStateParams{
			Namespace: r.namespace(), Scopes: r.read.Scopes, MaxBytes: limits.MaxStateBytes,
			MaxRows: int32(limits.MaxStateReadKeys + len(r.ids) + len(r.read.Scopes) + 1),
		}
		if r.read.State {
			params.SessionIds = r.ids
		}
		conn.Ask(ctx, states, &r.state, queries.SessionReadState, params)
		inView := convert.Each(scopes, func(scope repo.Scope) repo.Scope { return rules.ScopeInView(r.view, scope) })
		moment.Add(func(q db.DBTX) error {
			rows, err := queries.TurnScopeVersions(ctx, q, convert.Scopes(inView))
			r.versions = map[repo.Scope]int64{}
			for _, row := range rows {
				r.versions[scopes[row.Place-1]] = row.Version
			}
			return err
		})
	}
	conn.Ask(ctx, moment, &r.after, queries.SessionReadHeads, r.ids)
	return r.exec.readTogether(ctx, *steps, *moment, *states)
}

// scopes returns the scopes of the states that are read.
func (r *reading) scopes() (scopes []repo.Scope) {
	if r.read.State {
		for _, id := range r.read.IDs {
			scopes = append(scopes, repo.Scope{SessionID: id})
		}
	}
	for _, name := range r.read.Scopes {
		scopes = append(scopes, repo.Scope{Name: name})
	}
	return scopes
}

// hasVersions reports whether the states are the same as when the sessions were read.
func (r *reading) hasVersions(snapshot *repo.Snapshot) bool {
	for _, state := range snapshot.Scopes {
		if r.versions != nil && state.Version != r.versions[state.Scope] {
			return false
		}
	}
	for _, session := range snapshot.Sessions {
		if r.versions != nil && session != nil && session.State.Version != r.versions[session.State.Scope] {
			return false
		}
	}
	return true
}

// addState adds the keys to each state that was asked for. A shared state has a name, and a session's own has its id.
func (r *reading) addState(snapshot *repo.Snapshot) error {
	size, keys := 0, 0
	for i := range r.state {
		row := &r.state[i]
		used := false
		add := func(state *repo.ScopeState) {
			state.Version = row.ScopeVersion
			if row.Key == "" {
				return
			}
			if used {
				row.Value = bytes.Clone(row.Value)
			}
			used = true
			size, keys = size+len(row.Key)+len(row.Value), keys+1
			if row.Value == nil {
				size = limits.MaxStateBytes + 1 // there was no room for it
			}
			state.Values = append(state.Values, convert.StateValue(row.Key, row.Value, row.Version, row.UpdatedAt))
		}
		for at, session := range snapshot.Sessions {
			if row.Name == nil && session != nil && r.ids[at] == row.SessionID {
				add(&session.State)
			}
		}
		for at := range snapshot.Scopes {
			if row.Name != nil && r.read.Scopes[at] == *row.Name {
				add(&snapshot.Scopes[at])
			}
		}
	}
	if keys > limits.MaxStateReadKeys || size > limits.MaxStateBytes {
		return &repo.LimitExceededError{Kind: "keys or bytes of state", Limit: limits.MaxStateReadKeys}
	}
	sortKeys := func(state *repo.ScopeState) {
		slices.SortFunc(state.Values, func(a, b repo.StateValue) int { return strings.Compare(a.Key, b.Key) })
	}
	for _, session := range snapshot.Sessions {
		if session != nil && r.read.State {
			session.State.Scope.SessionID = session.Session.ID
			sortKeys(&session.State)
		}
	}
	for i := range snapshot.Scopes {
		snapshot.Scopes[i].Scope.Name = r.read.Scopes[i]
		sortKeys(&snapshot.Scopes[i])
	}
	return nil
}

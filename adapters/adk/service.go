// Package adk keeps the sessions of Google's Agent Development Kit in an agentstore, each
// under its SessionKey. Events are messages. State is in the session's own scope, or by
// the prefix of its keys, which they keep, in AppScope or UserScope.
package adk

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/adk/v2/platform"
	"google.golang.org/adk/v2/session"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/adapter"
)

// NewSessionService returns a session service. It and its sessions are safe for concurrent
// use; its errors are the errors of package repo. AppendEvent appends after all other
// events, also to a session that was read before them, and changes the keys in StateDelta
// and no others. It does so once: appending an event again changes nothing, and another
// one with its ID is ErrConflict. Without an ID, each call stores an event.
func NewSessionService(store repo.Store) session.Service { return service{store} }

type service struct{ store repo.Store }

// Create creates a session. If there is one with the id, the error is ErrConflict.
func (s service) Create(ctx context.Context, req *session.CreateRequest) (*session.CreateResponse, error) {
	get := session.GetRequest{AppName: req.AppName, UserID: req.UserID, SessionID: cmp.Or(req.SessionID, platform.NewUUID(ctx))}
	key := SessionKey(get.AppName, get.UserID, get.SessionID)
	var h *handle
	err := s.store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		created, err := tx.Sessions().Create(ctx, repo.NewSession{Namespace: key.Namespace, Key: key.Key, Owner: req.UserID, Existing: repo.ExistingNone})
		if err != nil {
			return err
		}
		state, err := changes(repo.Scope{SessionID: created.ID}, get.AppName, get.UserID, req.State)
		if err == nil && len(state) > 0 { // late, since it locks scopes until the commit
			if _, err = tx.State().Change(ctx, state); err == nil {
				err = bound(ctx, tx.State(), created.ID, state)
			}
		}
		if err == nil {
			h, err = read(ctx, tx.Sessions(), &get)
		}
		return err
	})
	return &session.CreateResponse{Session: h}, err
}

// Get returns the session as it was at one moment, its events in the order in which they
// were stored: of the last NumRecentEvents, the ones with a Timestamp not before After.
func (s service) Get(ctx context.Context, req *session.GetRequest) (*session.GetResponse, error) {
	h, err := read(ctx, s.store.Sessions(), req)
	return &session.GetResponse{Session: h}, err
}

func read(ctx context.Context, sessions repo.Sessions, req *session.GetRequest) (*handle, error) {
	key := SessionKey(req.AppName, req.UserID, req.SessionID)
	found, shared, err := adapter.ReadByKey(ctx, sessions, key, max(0, req.NumRecentEvents), AppScope(req.AppName).Name, UserScope(req.AppName, req.UserID).Name)
	if err != nil {
		return nil, err
	}
	return newHandle(ctx, &found, req.After, req.AppName, shared[0], shared[1])
}

// List returns the sessions of an application, or of one of its users, newest first,
// without events. Of one whose state is too large to be read, State().Get says so.
func (s service) List(ctx context.Context, req *session.ListRequest) (*session.ListResponse, error) {
	app, response := AppScope(req.AppName).Name, &session.ListResponse{}
	for page := (repo.Page{Limit: 128}); ; {
		listed, err := s.store.Sessions().List(ctx, repo.SessionFilter{Namespace: app, Owner: req.UserID, AnyOwner: req.UserID == ""}, page)
		if err != nil {
			return nil, err
		}
		read := repo.ReadSessions{State: true, Scopes: []string{app}}
		for _, listed := range listed.Items {
			read.IDs = append(read.IDs, listed.ID)
			read.Scopes = append(read.Scopes, UserScope(req.AppName, listed.Owner).Name)
		}
		snapshot, err := s.store.Sessions().Read(ctx, read)
		tooLarge := err
		if errors.Is(err, repo.ErrLimit) && page.Limit > 1 { // fewer sessions have less state
			page.Limit /= 2
			continue
		} else if errors.Is(err, repo.ErrLimit) {
			snapshot, err = s.store.Sessions().Read(ctx, repo.ReadSessions{IDs: read.IDs})
			snapshot.Scopes = make([]repo.ScopeState, len(read.Scopes))
		}
		for i := 0; i < len(snapshot.Sessions) && err == nil; i++ {
			// It may have been deleted meanwhile, or made by other means.
			if found := snapshot.Sessions[i]; found != nil && strings.HasPrefix(found.Session.Key, repo.JoinKey(found.Session.Owner, "")) {
				var h *handle
				if h, err = newHandle(ctx, found, time.Time{}, req.AppName, snapshot.Scopes[0], snapshot.Scopes[i+1]); err == nil && tooLarge != nil {
					h.state = unread{h.state, tooLarge}
				}
				response.Sessions = append(response.Sessions, h)
			}
		}
		page.Limit = min(128, 2*page.Limit)
		if page.After = listed.Next; page.After == "" || err != nil {
			return response, err
		}
	}
}

// Delete deletes the session and its own state. A session that does not exist is no error.
func (s service) Delete(ctx context.Context, req *session.DeleteRequest) error {
	_, err := adapter.ByKey(ctx, s.store.Sessions(), SessionKey(req.AppName, req.UserID, req.SessionID), func(id repo.ID) (repo.DeletedSession, error) {
		return s.store.Sessions().Delete(ctx, id)
	})
	if !errors.Is(err, repo.ErrNotFound) {
		return err
	}
	return nil
}

// AppendEvent stores the event and adds it to current, unless it is partial.
func (s service) AppendEvent(ctx context.Context, current session.Session, event *session.Event) error {
	if current == nil || event == nil {
		return &repo.InvalidError{Field: "session or event", Reason: "is nil"}
	}
	if event.Partial {
		return nil
	}
	key := SessionKey(current.AppName(), current.UserID(), current.ID())
	turn, err := turn(current, event)
	if err != nil {
		return err
	}
	added, err := adapter.ByKey(ctx, s.store.Sessions(), key, func(id repo.ID) (repo.AppendedTurn, error) {
		turn.SessionID = id
		if !grows(current, turn.State) {
			return s.store.Sessions().AppendTurn(ctx, turn)
		}
		var added repo.AppendedTurn
		return added, s.store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) (err error) {
			if added, err = tx.Sessions().AppendTurn(ctx, turn); err != nil || added.Repeated {
				return err
			}
			return bound(ctx, tx.State(), id, turn.State)
		})
	})
	if h, ok := current.(*handle); ok && err == nil && (!added.Repeated || !h.has(event.ID)) {
		return h.add(ctx, event)
	}
	return err
}

// The state of a session, and what it shares, are read together, so each has its share of what can be: limits of keys and bytes.
const (
	maxSharedKeys, maxSharedBytes = 2500, 12 << 20
	maxOwnKeys, maxOwnBytes       = 5000, 32 << 20
	// smallValue: a value of this size may replace another one unseen. With as many of these there is not too much either.
	smallValue = 512
)

// grows reports whether a scope may have more after the changes: keys that no event of the session has stored, or large values. What
// State returns does not say it, since the framework sets there what it has yet to store.
func grows(current session.Session, changes []repo.StateChange) bool {
	h, ours := current.(*handle)
	return slices.ContainsFunc(changes, func(change repo.StateChange) bool {
		if !ours || len(change.Value) > smallValue {
			return true
		}
		_, err := h.Session.State().Get(change.Key)
		return err != nil
	})
}

// bound refuses changes after which a scope has too much. This transaction has locked the scope.
func bound(ctx context.Context, state repo.State, own repo.ID, changes []repo.StateChange) error {
	var scopes []repo.Scope
	for _, change := range changes {
		if change.Scope.Name == "" {
			change.Scope.SessionID = own
		}
		if !slices.Contains(scopes, change.Scope) {
			scopes = append(scopes, change.Scope)
		}
	}
	read, err := state.Read(ctx, scopes...)
	for _, scope := range read {
		where, keys, bytes := "the state of "+scope.Scope.Name, maxSharedKeys, maxSharedBytes
		if scope.Scope.Name == "" {
			where, keys, bytes = "the session's state", maxOwnKeys, maxOwnBytes
		}
		size := 0
		for _, value := range scope.Values {
			size += len(value.Key) + len(value.Value)
		}
		if len(scope.Values) > keys {
			return &repo.LimitExceededError{Kind: "keys in " + where, Limit: int64(keys)}
		} else if size > bytes {
			return &repo.LimitExceededError{Kind: "bytes in " + where, Limit: int64(bytes)}
		}
	}
	return err
}

const kind = "adk.event" // of the messages that are events

// SessionKey returns the key of a session in the store.
func SessionKey(app, user, id string) repo.SessionKey {
	return repo.SessionKey{Namespace: AppScope(app).Name, Key: repo.JoinKey(user, id)}
}

// AppScope returns the scope of an application's keys that begin with "app:".
func AppScope(app string) repo.Scope { return repo.Scope{Name: repo.JoinKey("adk", app)} }

// UserScope returns the scope of a user's keys that begin with "user:".
func UserScope(app, user string) repo.Scope { return repo.Scope{Name: repo.JoinKey("adk", app, user)} }

// Event returns the event that a message of a session is. If it is none, but was appended
// by other means, Event returns nil.
func Event(message repo.Message) (*session.Event, error) {
	event := &session.Event{}
	if message.Kind != kind {
		return nil, nil
	}
	if json.Unmarshal(message.Payload, event) != nil { // whose error may quote the payload
		return nil, fmt.Errorf("adk: message %d of session %s has no event that can be read", message.Sequence, message.SessionID)
	}
	return event, nil
}

// Calls returns the ids of the calls that an event makes, or whose responses it has: it is the Calls of
// window.Options.
func Calls(message repo.Message) []string {
	event, err := Event(message)
	if err != nil || event == nil {
		return nil
	}
	calls, responses := idsOf(event)
	if message.Role == repo.RoleAssistant {
		return calls
	}
	return responses
}

func idsOf(event *session.Event) (calls, responses []string) {
	for i := 0; event.Content != nil && i < len(event.Content.Parts); i++ {
		switch part := event.Content.Parts[i]; {
		case part == nil:
		case part.FunctionCall != nil:
			calls = append(calls, part.FunctionCall.ID)
		case part.FunctionResponse != nil:
			responses = append(responses, part.FunctionResponse.ID)
		}
	}
	return calls, responses
}

// turn returns what stores the event: its text as content, for other readers, all of it as
// payload, its first call or response as call id, and its state.
func turn(current session.Session, event *session.Event) (repo.Turn, error) {
	stored := *event
	stored.Actions.StateDelta = maps.Clone(event.Actions.StateDelta)
	maps.DeleteFunc(stored.Actions.StateDelta, isTemp)
	state, err := changes(repo.Scope{}, current.AppName(), current.UserID(), event.Actions.StateDelta)
	if err != nil {
		return repo.Turn{}, err
	}
	m := repo.NewMessage{Role: repo.RoleAssistant, Kind: kind, OccurredAt: event.Timestamp}
	if m.Payload, err = encode("event", &stored); err != nil {
		return repo.Turn{}, err
	}
	if event.ID != "" {
		sum := sha256.Sum256([]byte(event.ID))
		m.ID = repo.ID(sum[:len(m.ID)])
	}
	if event.Author == "user" {
		m.Role = repo.RoleUser
	}
	calls, responses := idsOf(event)
	if len(responses) > 0 {
		m.Role = repo.RoleTool
	}
	for _, id := range slices.Concat(responses, calls) {
		if m.CallID == "" && len(id) <= limits.MaxUserIDBytes && !strings.Contains(id, "\x00") && utf8.ValidString(id) {
			m.CallID = id
		}
	}
	for i := 0; event.Content != nil && i < len(event.Content.Parts); i++ {
		if part := event.Content.Parts[i]; part != nil && !part.Thought {
			m.Content += strings.ReplaceAll(strings.ToValidUTF8(part.Text, "\uFFFD"), "\x00", "\uFFFD")
		}
	}
	return repo.Turn{Messages: []repo.NewMessage{m}, State: state}, nil
}

// changes returns what stores the keys, always in the same order, since an event that is
// appended again must be the same. own is the scope of the session's own keys.
func changes(own repo.Scope, app, user string, delta map[string]any) (changes []repo.StateChange, err error) {
	for _, key := range slices.Sorted(maps.Keys(delta)) {
		change := repo.StateChange{Key: key, Scope: own}
		switch {
		case isTemp(key, nil):
			continue
		case strings.HasPrefix(key, session.KeyPrefixApp):
			change.Scope = AppScope(app)
		case strings.HasPrefix(key, session.KeyPrefixUser):
			change.Scope = UserScope(app, user)
		}
		if change.Value, err = encode(fmt.Sprintf("state[%q]", key), delta[key]); err != nil {
			return nil, err
		}
		change.Value = withoutNUL(change.Value)
		changes = append(changes, change)
	}
	return changes, nil
}

// encode returns JSON that can be read as a T again: a stored event that ADK cannot read would make the whole session unreadable. For what
// is no UTF-8, as a model or a tool may say it, json writes U+FFFD.
func encode[T any](field string, value T) (json.RawMessage, error) {
	text, err := json.Marshal(value)
	var read T
	if err != nil || json.Unmarshal(text, &read) != nil {
		return nil, &repo.InvalidError{Field: field, Reason: "cannot be written as JSON and read again"}
	}
	return text, nil
}

// withoutNUL replaces NUL, which a state cannot have, in place.
func withoutNUL(text json.RawMessage) json.RawMessage {
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' {
			if bytes.HasPrefix(text[i:], []byte(`\u0000`)) {
				copy(text[i:], `\ufffd`)
			}
			i++
		}
	}
	return text
}

func isTemp(key string, _ any) bool { return strings.HasPrefix(key, session.KeyPrefixTemp) }

// handle is a session as it was read, with what was appended through it: ADK's own, in
// memory, and the state of another one, because the events that are read must not change it.
type handle struct {
	session.Session
	memory session.Service // of Session
	state  session.State
}

func newHandle(ctx context.Context, found *repo.SessionSnapshot, after time.Time, appName string, app, user repo.ScopeState) (*handle, error) {
	key := adapter.SplitKey(found.Session.Key)
	names := session.CreateRequest{AppName: appName, UserID: found.Session.Owner, SessionID: key[len(key)-1], State: map[string]any{}}
	ctx = platform.WithTimeProvider(ctx, func() time.Time { return found.Session.UpdatedAt })
	memory := session.InMemoryService()
	created, err := memory.Create(ctx, &names)
	for i := 0; i < len(found.Messages) && err == nil; i++ {
		var event *session.Event
		if event, err = Event(found.Messages[i]); event != nil && !event.Timestamp.Before(after) {
			err = memory.AppendEvent(ctx, created.Session, event)
		}
	}
	if err != nil {
		return nil, err
	}
	for _, stored := range slices.Concat(app.Values, user.Values, found.State.Values) {
		value := any(stored.Value) // which stays if it is no JSON for this program, such as 1e400
		_ = json.Unmarshal(stored.Value, &value)
		names.State[stored.Key] = value
	}
	state, err := session.InMemoryService().Create(ctx, &names)
	return &handle{created.Session, memory, state.Session.State()}, err
}

func (h *handle) State() session.State { return h.state }

// unread is a state that is too large to be read.
type unread struct {
	session.State
	err error
}

func (u unread) Get(string) (any, error) { return nil, u.err }

func (h *handle) has(id string) bool {
	for event := range h.Events().All() {
		if event.ID == id {
			return true
		}
	}
	return false
}

func (h *handle) add(ctx context.Context, event *session.Event) error {
	for key, value := range event.Actions.StateDelta {
		_ = h.state.Set(key, value) // which cannot fail
	}
	return h.memory.AppendEvent(ctx, h.Session, event)
}

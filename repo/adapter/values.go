package adapter

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/seed-df90f812/agentstore/repo"
)

// EncodeJSON returns value as JSON, and refuses a value whose JSON a T cannot be read from: some
// types write more than they read, and one such value would make everything that is stored with
// it unreadable. Text that is not UTF-8, which JSON cannot carry, is refused, too. Errors:
// InvalidError of the field, without the contents.
func EncodeJSON[T any](field string, value T) (json.RawMessage, error) {
	text, err := json.Marshal(value)
	var read T
	if err != nil || json.Unmarshal(text, &read) != nil {
		return nil, &repo.InvalidError{Field: field, Reason: "cannot be written as JSON and read again"}
	}
	// json writes this escape for a byte that is no UTF-8, and what it reads there as a character.
	if escape := []byte(`\ufffd`); bytes.Contains(text, escape) {
		again, err := json.Marshal(read)
		if err != nil || bytes.Count(again, escape) != bytes.Count(text, escape) {
			return nil, &repo.InvalidError{Field: field, Reason: "has text that is not UTF-8"}
		}
	}
	return text, nil
}

// Values are the keys of a scope as values of one type, which JSON can carry. [ValuesIn]
// returns it. It is as safe for concurrent use as the repository that it was made with.
type Values[T any] struct {
	state repo.State
	scope repo.Scope
}

// ValuesIn returns the values of a scope, all of whose keys have values of the type T.
func ValuesIn[T any](state repo.State, scope repo.Scope) Values[T] { return Values[T]{state, scope} }

// Get returns the value of a key. Errors: as of State.Get; InvalidError of the
// field "value" if what is stored is no T.
func (v Values[T]) Get(ctx context.Context, key string) (T, error) {
	stored, err := v.state.Get(ctx, v.scope, key)
	if err != nil {
		var none T
		return none, err
	}
	return v.decode(stored)
}

// List returns all values as they were at one moment, ordered by the bytes of their keys.
// Errors: as of State.Read; InvalidError, as of Get.
func (v Values[T]) List(ctx context.Context) ([]T, error) {
	scopes, err := v.state.Read(ctx, v.scope)
	if err != nil {
		return nil, err
	}
	list := make([]T, len(scopes[0].Values))
	for i, stored := range scopes[0].Values {
		if list[i], err = v.decode(stored); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Set sets the value of a key. Errors: as of State.Change; InvalidError of the
// field "value" if JSON cannot carry it.
func (v Values[T]) Set(ctx context.Context, key string, value T) error {
	text, err := EncodeJSON("value", value)
	if err == nil {
		_, err = v.state.Change(ctx, []repo.StateChange{{Scope: v.scope, Key: key, Value: text}})
	}
	return err
}

// Remove removes a key. If it does not exist, only the scope's version changes. Errors:
// errors of State.Change.
func (v Values[T]) Remove(ctx context.Context, key string) error {
	_, err := v.state.Change(ctx, []repo.StateChange{{Scope: v.scope, Key: key, Op: repo.StateRemove}})
	return err
}

// Erase deletes the scope, which is a shared one, with all of its keys. Errors: errors
// of State.Erase; InvalidError of the field "scope" if it has a session.
func (v Values[T]) Erase(ctx context.Context) error {
	if v.scope.Name == "" || !v.scope.SessionID.IsZero() {
		return &repo.InvalidError{Field: "scope", Reason: "is a session's own, which is deleted with the session"}
	}
	_, err := v.state.Erase(ctx, v.scope.Name)
	return err
}

// decode leaves the contents out of the error.
func (v Values[T]) decode(stored repo.StateValue) (value T, err error) {
	if json.Unmarshal(stored.Value, &value) != nil {
		var none T
		return none, &repo.InvalidError{Field: "value", Reason: fmt.Sprintf("is stored as something else than a %T", value)}
	}
	return value, nil
}

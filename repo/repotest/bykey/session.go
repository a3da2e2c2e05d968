// Package bykey has operations of sessions that are named by their keys, for tests.
package bykey

import (
	"context"
	"errors"
	"iter"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/adapter"
)

// Session is a session that is named by its key, whether it exists or not.
type Session struct {
	sessions repo.Sessions
	key      repo.SessionKey
}

// Of returns the session with this key. Its methods find it (adapter.ByKey), and do what those
// of sessions with the same names do.
func Of(sessions repo.Sessions, key repo.SessionKey) Session { return Session{sessions, key} }

// Get is Sessions.Get.
func (k Session) Get(ctx context.Context) (repo.Session, error) {
	return adapter.ByKey(ctx, k.sessions, k.key, func(id repo.ID) (repo.Session, error) { return k.sessions.Get(ctx, id) })
}

// Read is adapter.ReadByKey.
func (k Session) Read(ctx context.Context, last int, scopes ...string) (repo.SessionSnapshot, []repo.ScopeState, error) {
	return adapter.ReadByKey(ctx, k.sessions, k.key, last, scopes...)
}

// Follow is Sessions.Follow, of the session that has the key when it begins.
func (k Session) Follow(ctx context.Context, from int64) iter.Seq2[repo.Message, error] {
	return func(yield func(repo.Message, error) bool) {
		_, err := adapter.ByKey(ctx, k.sessions, k.key, func(id repo.ID) (none struct{}, _ error) {
			for message, err := range k.sessions.Follow(ctx, id, from) {
				if missing, ok := errors.AsType[*repo.NotFoundError](err); ok && !missing.Gone { // it has yielded nothing
					return none, err
				}
				if !yield(message, err) {
					break
				}
			}
			return none, nil
		})
		if err != nil {
			yield(repo.Message{}, err)
		}
	}
}

// Append is Sessions.Append.
func (k Session) Append(ctx context.Context, messages ...repo.NewMessage) ([]repo.Message, error) {
	return adapter.ByKey(ctx, k.sessions, k.key, func(id repo.ID) ([]repo.Message, error) { return k.sessions.Append(ctx, id, messages...) })
}

// AppendTurn is Sessions.AppendTurn. The session that Turn.Create describes gets the key.
func (k Session) AppendTurn(ctx context.Context, turn repo.Turn) (repo.AppendedTurn, error) {
	if turn.Create == nil {
		return adapter.ByKey(ctx, k.sessions, k.key, func(id repo.ID) (repo.AppendedTurn, error) {
			turn.SessionID = id
			return k.sessions.AppendTurn(ctx, turn)
		})
	}
	create := *turn.Create
	create.ID, create.Namespace, create.Key = repo.ID{}, k.key.Namespace, k.key.Key
	turn.Create = &create
	return k.sessions.AppendTurn(ctx, turn)
}

// AppendOrCreate appends to the session, which is created if it does not exist.
func (k Session) AppendOrCreate(ctx context.Context, session repo.NewSession, messages ...repo.NewMessage) ([]repo.Message, error) {
	added, err := k.AppendTurn(ctx, repo.Turn{Create: &session, Messages: messages})
	return added.Messages, err
}

// Delete is Sessions.Delete.
func (k Session) Delete(ctx context.Context) (repo.DeletedSession, error) {
	return adapter.ByKey(ctx, k.sessions, k.key, func(id repo.ID) (repo.DeletedSession, error) { return k.sessions.Delete(ctx, id) })
}

package repo

import (
	"context"
	"errors"
	"iter"
	"slices"
)

// KeyedSession is a session that is named by its key, whether it exists or not. It is
// as safe for concurrent use as the repository that it was made with.
type KeyedSession struct {
	sessions Sessions
	key      SessionKey
}

// ByKey returns the session with this key. Its methods find it (SessionReader.Find), and do
// what those of sessions with the same names do. A NotFoundError of theirs has the key. If
// the session is deleted meanwhile, the one that has the key then is found, if there is one:
// so each call may be about another session. For all other operations there is Find.
func ByKey(sessions Sessions, key SessionKey) KeyedSession { return KeyedSession{sessions, key} }

// keyedAttempts bounds how often an operation finds that the session was deleted.
const keyedAttempts = 10

// found calls do with the session's id, and again with another one if the session with that
// id does not exist. Its result is do's.
func found[T any](ctx context.Context, k KeyedSession, do func(ID) (T, error)) (result T, err error) {
	for range keyedAttempts {
		id, missing := k.sessions.Find(ctx, k.key)
		if missing != nil {
			return result, missing
		}
		if result, err = do(id); !isMissing(err, id) {
			return result, err
		}
	}
	return result, &NotFoundError{Kind: "session", Key: k.key}
}

func isMissing(err error, session ID) bool {
	missing, ok := errors.AsType[*NotFoundError](err)
	return ok && missing.Kind == "session" && missing.ID == session
}

// Get is SessionReader.Get.
func (k KeyedSession) Get(ctx context.Context) (Session, error) {
	return found(ctx, k, func(id ID) (Session, error) { return k.sessions.Get(ctx, id) })
}

// Read is SessionReader.Read of this session with its last messages, or with all of them
// if last is 0, its own state, and shared ones. However many messages there are, and
// however large they are, all that are asked for are returned: those that are too much
// for one read are read one chunk after the other. The session, its messages and the
// states are as they were at one moment all the same, since messages never change.
func (k KeyedSession) Read(ctx context.Context, last int, scopes ...string) (SessionSnapshot, []ScopeState, error) {
	read := ReadSessions{Last: min(last, MaxReadMessages), State: true, Scopes: scopes}
	if last == 0 {
		read.Last = MaxReadMessages
	}
	snapshot, err := found(ctx, k, func(id ID) (Snapshot, error) {
		read.IDs = []ID{id}
		snapshot, err := k.sessions.Read(ctx, read)
		if err != nil {
			return Snapshot{}, err
		}
		session := snapshot.Sessions[0]
		if session == nil {
			return Snapshot{}, &NotFoundError{Kind: "session", ID: id}
		}
		earlier, err := k.earlier(ctx, session, last)
		if err != nil {
			return Snapshot{}, err
		}
		session.Messages, session.Cut = slices.Concat(earlier, session.Messages), false
		return snapshot, nil
	})
	if err != nil {
		return SessionSnapshot{}, nil, err
	}
	return *snapshot.Sessions[0], snapshot.Scopes, nil
}

// earlier returns the messages before those of a snapshot that belong to the last ones, or
// to all if last is 0.
func (k KeyedSession) earlier(ctx context.Context, of *SessionSnapshot, last int) (earlier []Message, err error) {
	count := of.Session.MessageCount
	first, from := count-int64(len(of.Messages)), int64(0)
	if last > 0 {
		from = max(0, count-int64(last))
	}
	if from >= first {
		return nil, nil
	}
	for message, err := range k.sessions.Stream(ctx, of.Session.ID, from) {
		if err != nil {
			return nil, err
		}
		if message.Sequence == first {
			break
		}
		earlier = append(earlier, message)
	}
	return earlier, nil
}

// Follow is MessageReader.Follow, of the session that has the key when it begins.
func (k KeyedSession) Follow(ctx context.Context, from int64) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		_, err := found(ctx, k, func(id ID) (struct{}, error) {
			for message, err := range k.sessions.Follow(ctx, id, from) {
				if isMissing(err, id) { // it has yielded nothing
					return struct{}{}, err
				}
				if !yield(message, err) {
					break
				}
			}
			return struct{}{}, nil
		})
		if err != nil {
			yield(Message{}, err)
		}
	}
}

// Append is MessageWriter.Append.
func (k KeyedSession) Append(ctx context.Context, messages ...NewMessage) ([]Message, error) {
	return found(ctx, k, func(id ID) ([]Message, error) { return k.sessions.Append(ctx, id, messages...) })
}

// AppendAt is MessageWriter.AppendAt.
func (k KeyedSession) AppendAt(ctx context.Context, expected int64, messages ...NewMessage) ([]Message, error) {
	return found(ctx, k, func(id ID) ([]Message, error) { return k.sessions.AppendAt(ctx, id, expected, messages...) })
}

// AppendTurn is MessageWriter.AppendTurn. The Namespace and Key of turn.Create, if that is
// set, are not used.
func (k KeyedSession) AppendTurn(ctx context.Context, turn Turn) (AppendedTurn, error) {
	if turn.Create == nil {
		return found(ctx, k, func(id ID) (AppendedTurn, error) { return k.sessions.AppendTurn(ctx, id, turn) })
	}
	create := *turn.Create
	create.Namespace, create.Key = k.key.Namespace, k.key.Key
	turn.Create = &create
	return k.sessions.AppendTurn(ctx, ID{}, turn)
}

// AppendOrCreate appends like MessageWriter.Append. If the session does not exist, it is
// created with the messages, as session describes it, whose ID, Namespace, Key and Existing
// are not used. However many callers do so at once, one of them creates the session, and all
// append to it. Errors: those of MessageWriter.AppendTurn.
func (k KeyedSession) AppendOrCreate(ctx context.Context, session NewSession, messages ...NewMessage) ([]Message, error) {
	session.ID = ID{}
	added, err := k.AppendTurn(ctx, Turn{Create: &session, Messages: messages})
	return added.Messages, err
}

// Delete is SessionWriter.Delete.
func (k KeyedSession) Delete(ctx context.Context) (DeletedSession, error) {
	return found(ctx, k, func(id ID) (DeletedSession, error) { return k.sessions.Delete(ctx, id) })
}

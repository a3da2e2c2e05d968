package repo

import (
	"context"
	"errors"
	"iter"
	"reflect"
	"slices"
)

// KeyedSession is a session that is named by its key, whether it exists or not. It is
// as safe for concurrent use as the repository that it was made with.
type KeyedSession struct {
	sessions Sessions
	key      SessionKey
	id       ID
}

// ByKey returns the session with this key. Its methods do what those of sessions with
// the same names do, and a NotFoundError of theirs has the key. For all other
// operations there is key.ID().
func ByKey(sessions Sessions, key SessionKey) KeyedSession {
	return KeyedSession{sessions, key, key.ID()}
}

// Get is SessionReader.Get.
func (k KeyedSession) Get(ctx context.Context) (Session, error) {
	session, err := k.sessions.Get(ctx, k.id)
	return session, k.named(err)
}

// Read is SessionReader.Read of this session with its last messages, or with all of them
// if last is 0, its own state, and shared ones. However many messages there are, and
// however large they are, all that are asked for are returned: those that are too much
// for one read are read one chunk after the other. The session, its messages and the
// states are as they were at one moment all the same, since messages never change. If the
// session is deleted meanwhile, all is read again; the error is NotFoundError if that happens
// again and again. One limit remains: if an edited export is imported in its place between two
// chunks, and the message at which they meet was not edited, what is before that may be the
// imported session's.
func (k KeyedSession) Read(ctx context.Context, last int, scopes ...string) (SessionSnapshot, []ScopeState, error) {
	read := ReadSessions{IDs: []ID{k.id}, Last: min(last, MaxReadMessages), State: true, Scopes: scopes}
	if last == 0 {
		read.Last = MaxReadMessages
	}
	for range keyedAttempts {
		snapshot, err := k.sessions.Read(ctx, read)
		if err != nil {
			return SessionSnapshot{}, nil, err
		}
		found := snapshot.Sessions[0]
		if found == nil {
			break
		}
		earlier, same, err := k.earlier(ctx, found, last)
		if err != nil {
			return SessionSnapshot{}, nil, err
		}
		if same {
			found.Messages, found.Cut = slices.Concat(earlier, found.Messages), false
			return *found, snapshot.Scopes, nil
		}
	}
	return SessionSnapshot{}, nil, k.named(&NotFoundError{Kind: "session", ID: k.id})
}

// earlier returns the messages before those of a snapshot that belong to the last ones, or
// to all if last is 0. It reports whether the session is still that of the snapshot.
func (k KeyedSession) earlier(ctx context.Context, found *SessionSnapshot, last int) (earlier []Message, same bool, err error) {
	count := found.Session.MessageCount
	first, from := count-int64(len(found.Messages)), int64(0)
	if last > 0 {
		from = max(0, count-int64(last))
	}
	if from >= first {
		return nil, true, nil
	}
	for message, err := range k.sessions.Stream(ctx, k.id, from) {
		switch {
		case errors.Is(err, ErrNotFound):
			return nil, false, nil
		case err != nil:
			return nil, false, err
		case message.Sequence < first:
			earlier = append(earlier, message)
			continue
		}
		// Where they meet, the message must be the same one.
		return earlier, len(found.Messages) > 0 && reflect.DeepEqual(message, found.Messages[0]), nil
	}
	return nil, false, nil // another session, which has fewer messages
}

// Follow is MessageReader.Follow.
func (k KeyedSession) Follow(ctx context.Context, from int64) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		for message, err := range k.sessions.Follow(ctx, k.id, from) {
			if !yield(message, k.named(err)) {
				return
			}
		}
	}
}

// Append is MessageWriter.Append.
func (k KeyedSession) Append(ctx context.Context, messages ...NewMessage) ([]Message, error) {
	stored, err := k.sessions.Append(ctx, k.id, messages...)
	return stored, k.named(err)
}

// AppendAt is MessageWriter.AppendAt.
func (k KeyedSession) AppendAt(ctx context.Context, expected int64, messages ...NewMessage) ([]Message, error) {
	stored, err := k.sessions.AppendAt(ctx, k.id, expected, messages...)
	return stored, k.named(err)
}

// AppendTurn is MessageWriter.AppendTurn. The ID, Namespace and Key of turn.Create, if
// that is set, are not used, and the key may then not be empty.
func (k KeyedSession) AppendTurn(ctx context.Context, turn Turn) (AppendedTurn, error) {
	if turn.Create != nil {
		if k.key.Key == "" {
			return AppendedTurn{}, invalid("key", "is empty")
		}
		create := *turn.Create
		create.ID, create.Namespace, create.Key = k.id, k.key.Namespace, k.key.Key
		turn.Create = &create
	}
	added, err := k.sessions.AppendTurn(ctx, k.id, turn)
	return added, k.named(err)
}

// Delete is SessionWriter.Delete.
func (k KeyedSession) Delete(ctx context.Context) (DeletedSession, error) {
	deleted, err := k.sessions.Delete(ctx, k.id)
	return deleted, k.named(err)
}

// keyedAttempts bounds how often an operation finds that the session was deleted.
const keyedAttempts = 10

// AppendOrCreate appends like MessageWriter.Append. If the session does not exist, it
// is created as session describes it, whose ID, Namespace, Key and Existing are not
// used. However many callers do so at once, one of them creates the session, and all
// append to it.
//
// Creating and appending are two writes: if the append fails, the session may exist
// without the messages. Errors: those of Append and of SessionWriter.Create; NotFoundError
// if the session is deleted again and again.
func (k KeyedSession) AppendOrCreate(ctx context.Context, session NewSession, messages ...NewMessage) ([]Message, error) {
	if k.key.Key == "" {
		return nil, invalid("key", "is empty")
	}
	session.ID, session.Namespace, session.Key, session.Existing = k.id, k.key.Namespace, k.key.Key, ExistingAny
	for attempt := 1; ; attempt++ {
		stored, err := k.Append(ctx, messages...)
		if !errors.Is(err, ErrNotFound) || attempt == keyedAttempts {
			return stored, err
		}
		if _, err := k.sessions.Create(ctx, session); err != nil {
			return nil, k.named(err)
		}
	}
}

// named gives the error of a missing session its key.
func (k KeyedSession) named(err error) error {
	missing, ok := errors.AsType[*NotFoundError](err)
	if !ok || missing.ID != k.id {
		return err
	}
	withKey := *missing
	withKey.Key = k.key
	return &withKey
}

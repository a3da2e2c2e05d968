package adapter

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

// keyedAttempts bounds how often an operation finds that the session was deleted.
const keyedAttempts = 10

// ByKey finds the session with this key, calls do with its id, and returns the result. If the
// session was deleted meanwhile, do returns its NotFoundError, and ByKey calls do again with the
// id of the session that has the key then: so do starts anew at each call. Errors: as of do and
// of Sessions.Find; NotFoundError with the key.
func ByKey[T any](ctx context.Context, sessions repo.Sessions, key repo.SessionKey,
	do func(id repo.ID) (T, error),
) (result T, err error) {
	for range keyedAttempts {
		id, missing := sessions.Find(ctx, key)
		if missing != nil {
			return result, missing
		}
		if result, err = do(id); !isMissing(err, id) {
			return result, err
		}
	}
	return result, &repo.NotFoundError{
		Kind: "session", Name: key.Key,
		Namespace: cmp.Or(key.Namespace, repo.DefaultNamespace),
	}
}

func isMissing(err error, session repo.ID) bool {
	missing, ok := errors.AsType[*repo.NotFoundError](err)
	return ok && missing.Kind == "session" && missing.ID == session && !missing.Gone
}

// ReadByKey returns the session with this key with its last messages, or with all of them
// if last is 0, its own state, and shared ones. However many messages there are, and however
// large they are, all that are asked for are returned: what is too much for one Sessions.Read
// is read chunk by chunk. The session, its messages and the states are as they were at one
// moment all the same, since messages never change. Errors: as of Sessions.Find and
// Sessions.Read; InvalidError if last is negative.
func ReadByKey(ctx context.Context, sessions repo.Sessions, key repo.SessionKey, last int,
	scopes ...string,
) (repo.SessionSnapshot, []repo.ScopeState, error) {
	read := repo.ReadSessions{Last: min(last, limits.MaxReadMessages), State: true, Scopes: scopes}
	if last == 0 {
		read.Last = limits.MaxReadMessages
	}
	snapshot, err := ByKey(ctx, sessions, key, func(id repo.ID) (repo.Snapshot, error) {
		read.IDs = []repo.ID{id}
		snapshot, err := sessions.Read(ctx, read)
		if err != nil {
			return repo.Snapshot{}, err
		}
		session := snapshot.Sessions[0]
		if session == nil {
			return repo.Snapshot{}, &repo.NotFoundError{Kind: "session", ID: id}
		}
		earlier, err := earlierThan(ctx, sessions, session, last)
		if err != nil {
			return repo.Snapshot{}, err
		}
		session.Messages, session.Cut = slices.Concat(earlier, session.Messages), false
		return snapshot, nil
	})
	if err != nil {
		return repo.SessionSnapshot{}, nil, err
	}
	return *snapshot.Sessions[0], snapshot.Scopes, nil
}

// earlierThan returns the messages before a snapshot's that belong to the last ones, or to all
// if last is 0.
func earlierThan(ctx context.Context, sessions repo.Sessions, of *repo.SessionSnapshot,
	last int,
) (earlier []repo.Message, err error) {
	count := of.Session.MessageCount
	first, from := count-int64(len(of.Messages)), int64(0)
	if last > 0 {
		from = max(0, count-int64(last))
	}
	if from >= first {
		return nil, nil
	}
	for message, err := range sessions.Messages(ctx, of.Session.ID, from) {
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

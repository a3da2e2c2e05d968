package effect

import (
	"cmp"
	"context"
	"errors"

	"github.com/seed-df90f812/agentstore/internal/pages"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/adapter"
)

// List returns one page of a session's effects, by the bytes of their keys of state. Errors: errors of
// State.List; InvalidError if something else is stored under such a key.
func List(ctx context.Context, store repo.Repositories, session repo.ID, page repo.Page) (repo.List[Effect], error) {
	found, err := list(ctx, store, session, page)
	effects := repo.List[Effect]{Next: found.Next}
	for _, r := range found.Items {
		effects.Items = append(effects.Items, r.Effect)
	}
	return effects, err
}

func list(ctx context.Context, store repo.Repositories, session repo.ID, page repo.Page) (repo.List[record], error) {
	found, err := store.State().List(ctx, repo.Scope{SessionID: session}, repo.JoinKey("effect", ""), page)
	records := repo.List[record]{Next: found.Next}
	for _, value := range found.Values {
		r, err := decode(Key{Session: session, Call: adapter.SplitKey(value.Key)[1]}, value)
		if err != nil {
			return repo.List[record]{}, err
		}
		records.Items = append(records.Items, r)
	}
	return records, err
}

// Crossed lists the effects that a rewind to the message with the sequence after leaves behind, or a fork there: all
// that were reserved for later messages. -1: all. They have happened, or may have, and no rewind undoes them. An
// effect without Policy.Sequence belongs to the first message with its call id, and is always listed if there is none.
// Effects of other branches are listed by their sequences, too, and left out if these are lower.
//
// Errors: as of List and of MessagesOfCall.
func Crossed(ctx context.Context, store repo.Repositories, session repo.ID, after int64) ([]Effect, error) {
	_, crossed, err := parted(ctx, store, session, after)
	return crossed, err
}

// parted parts the effects into the ones that were reserved up to a message, and the others.
func parted(
	ctx context.Context, store repo.Repositories, session repo.ID, after int64,
) (before []record, crossed []Effect, err error) {
	err = pages.Items(func(page repo.Page) (repo.List[record], error) {
		return list(ctx, store, session, page)
	}, func(r record) error {
		at := r.Sequence
		if at == nil {
			messages, err := store.Sessions().MessagesOfCall(ctx, session, r.Call)
			if err != nil {
				return err
			}
			if len(messages) > 0 {
				at = &messages[0].Sequence
			}
		}
		if at != nil && *at <= after {
			before = append(before, r)
		} else {
			crossed = append(crossed, r.Effect)
		}
		return nil
	})
	return before, crossed, err
}

// Fork forks a session as Sessions.Fork does, and carries its effects: the fork does not call again what was called in
// the transcript that it begins with, but answers with the stored result, and says so (Effect.From). What is not known
// yet stays unknown in the fork until it is resolved there: the fork sends nothing of its parent's. What it sends
// after that is its own, with another key, and needs a permit of its own. What is free is not carried. crossed are the
// effects of the messages behind at, and of no message: the fork does not have them.
//
// Sessions.Fork alone carries nothing: a call of the transcript would be a new effect of the fork.
//
// A fork that exists already is returned as it is. Errors: as of Sessions.Fork and Crossed.
func Fork(
	ctx context.Context, store repo.Store, id repo.ID, at int64, session repo.NewSession,
) (fork repo.Session, crossed []Effect, err error) {
	err = store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		fork, err = tx.Sessions().Fork(ctx, id, at, session)
		if err != nil {
			return err
		}
		var before []record
		before, crossed, err = parted(ctx, tx, id, at)
		for _, r := range before {
			if err == nil && !fork.Existed && r.State != StateFree {
				err = carry(ctx, tx.State(), fork.ID, r)
			}
		}
		return err
	})
	return fork, crossed, err
}

// carry copies a record into a fork, with its result.
func carry(ctx context.Context, state repo.State, fork repo.ID, r record) error {
	result, err := state.Get(ctx, r.scope(), r.resultKey())
	if err != nil && !errors.Is(err, repo.ErrNotFound) {
		return err
	}
	if r.State == StateReserved {
		r.State = StateUnknown
	}
	r.From, r.Session, r.version, r.By, r.Asked = cmp.Or(r.From, r.Session), fork, 0, repo.NewID(), false
	_, err = state.Change(ctx, r.changes(result.Value))
	return err
}

package files

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/seed-df90f812/agentstore/internal/pages"
	"github.com/seed-df90f812/agentstore/repo"
)

// Delete deletes all versions of a file, and returns how many. Their numbers are not given again. Their bytes are
// removed by Sweep, after the grace, if nothing else refers to them. Errors: InvalidError; NotFoundError if there is no
// version; RefusedError of the kind "hold" for what a legal hold keeps: a session's with the session, a user's with a
// hold of that owner, and all with one of the namespace.
func (f *Files) Delete(ctx context.Context, owner Owner, name string) (versions int, err error) {
	if err := cmp.Or(owner.check(), checkName(name)); err != nil {
		return 0, err
	}
	err = f.store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		changes := []repo.StateChange{remove(owner.scope, lastKey(name))}
		if err := lock(ctx, tx.State(), changes); err != nil {
			return err
		}
		if err := unheld(ctx, tx.Sessions(), owner); err != nil {
			return err
		}
		found, err := all(ctx, tx.State(), owner, repo.JoinKey("file", name, ""))
		if err == nil && len(found) == 0 {
			err = &repo.NotFoundError{Kind: "file"}
		}
		if err != nil {
			return err
		}
		versions = len(found)
		for _, file := range found {
			changes = append(changes, remove(owner.scope, versionKey(name, file.Version)))
			if checkID(file.ID) == nil {
				changes = append(changes, remove(owner.scope, idKey(file.ID)),
					set(shard(file.ID), "gone/"+file.ID+"/"+owner.key(), yes))
			}
		}
		if err := lock(ctx, tx.State(), changes); err != nil {
			return err
		}
		return write(ctx, tx.State(), changes)
	})
	if err != nil {
		return 0, err
	}
	return versions, nil
}

// unheld returns the refusal of what is held.
func unheld(ctx context.Context, sessions repo.Sessions, owner Owner) error {
	var session repo.Session
	if !owner.scope.SessionID.IsZero() {
		var err error
		if session, err = sessions.Get(ctx, owner.scope.SessionID); err != nil {
			return err
		}
	}
	return pages.Items(func(page repo.Page) (repo.List[repo.LegalHold], error) {
		return sessions.Holds(ctx, page)
	}, func(hold repo.LegalHold) error {
		theirs := hold.Owner == "" || hold.Owner == session.Owner || owner == OfUser(hold.Owner)
		if hold.SessionID.IsZero() && theirs || !hold.SessionID.IsZero() && hold.SessionID == session.ID {
			return &repo.RefusedError{Kind: "hold", ID: session.ID, Reason: "is kept by a legal hold"}
		}
		return nil
	})
}

// Fork forks a session as Sessions.Fork does, and gives the fork its parent's files: the versions that were saved
// before the message after at was, since messages up to at refer to no others. They keep their ids and numbers, no byte
// is copied, and the parent may be deleted. A fork that exists already is returned as it is. Errors: as of
// Sessions.Fork. Sessions.Fork alone gives no files.
func (f *Files) Fork(ctx context.Context, id repo.ID, at int64, new repo.NewSession) (fork repo.Session, err error) {
	err = f.store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		if fork, err = tx.Sessions().Fork(ctx, id, at, new); err != nil || fork.Existed {
			return err
		}
		found, err := all(ctx, tx.State(), OfSession(id), "file/")
		if err != nil {
			return err
		}
		return carry(ctx, tx.State(), found, OfSession(fork.ID), at)
	})
	return fork, err
}

// carry gives a fork versions of its parent's.
func carry(ctx context.Context, state repo.State, found []File, to Owner, at int64) error {
	found = slices.DeleteFunc(found, func(file File) bool { return file.Sequence > at || checkID(file.ID) != nil })
	locks := []repo.StateChange{remove(to.scope, lockKey)}
	for _, file := range found {
		locks = append(locks, remove(shard(file.ID), lockKey))
	}
	if err := lock(ctx, state, locks); err != nil {
		return err
	}
	var changes []repo.StateChange
	last := map[string]File{}
	for _, file := range found {
		var bytes ref
		err := get(ctx, state, shard(file.ID), refKey(file.ID, file.Owner), &bytes)
		if errors.Is(err, repo.ErrNotFound) { // an imported session's whose bytes were not
			continue
		} else if err != nil {
			return err
		}
		file.Owner, last[file.Name] = to, file
		changes = append(append(changes, file.describe()...), bytes.refer(file.ID, to)...)
	}
	for name, file := range last {
		changes = append(changes, set(to.scope, lastKey(name), encode(file)),
			set(to.scope, countKey(name), encode(file.Version)))
	}
	return write(ctx, state, changes)
}

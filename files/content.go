package files

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/seed-df90f812/agentstore/repo"
)

// content is what versions are to refer to.
type content struct {
	ref
	size int64
	end  repo.StateChange // ends the note of an upload; zero: the bytes were there
}

// errFreed reports that bytes that were there have been removed since.
var errFreed = errors.New("the bytes were removed")

// versions returns the versions that are to refer to content, and further changes, in the transaction that makes them.
type versions func(ctx context.Context, state repo.State, c content) ([]File, []repo.StateChange, error)

// keep keeps the bytes of r, if the namespace does not have them, and has versions refer to them. first is changed
// first: it locks the owner.
//
// A reference never dangles. The note of a new blob ends in the transaction in which the first version refers to it,
// and only as it was made: a sweep that has given the upload up has taken it. Each transaction that refers to bytes has
// locked the scope of their hash, and then looks which blob has them. One that removes a blob has locked the same
// scope, and then looks whether anything refers to it.
func (f *Files) keep(ctx context.Context, r io.Reader, first repo.StateChange, of versions) error {
	ctx, cancel := context.WithTimeout(ctx, f.options.Grace/2)
	defer cancel()
	s, err := newSource(ctx, r, f.options.MaxBytes)
	for attempts := 3; err == nil; attempts-- {
		var c content
		if c, err = f.known(ctx, s); err == nil && c.Blob == "" {
			c, err = f.upload(ctx, s)
		}
		if err != nil {
			return err
		}
		err = f.commit(ctx, c, first, of)
		if err == nil {
			s.done()
		}
		again := errors.Is(err, errFreed) || f.givenUp(ctx, c, err)
		if !again || attempts == 1 || s.sum == "" {
			return err
		}
		err = nil
	}
	return err
}

// known returns the bytes as content without a blob if the namespace does not have them, or that is not known yet.
func (f *Files) known(ctx context.Context, s *source) (content, error) {
	c := content{ref: ref{SHA256: s.sum}, size: s.size}
	if s.sum == "" {
		return c, nil
	}
	err := get(ctx, f.store.State(), shard(s.sum), "object/"+s.sum, &c.Blob)
	if errors.Is(err, repo.ErrNotFound) {
		err = nil
	}
	return c, err
}

// upload puts the bytes under a new key, which was noted.
func (f *Files) upload(ctx context.Context, s *source) (c content, err error) {
	if c.Blob, c.end, err = f.note(ctx); err != nil {
		return c, err
	}
	read, err := s.again(ctx)
	if err != nil {
		return c, err
	}
	if err := f.blobs.Put(ctx, c.Blob, read); err != nil {
		return c, errors.Join(read.err, err)
	}
	if !read.ended {
		return c, errors.Join(read.err, fmt.Errorf("files: the blobs have not read all: %w", io.ErrShortWrite))
	}
	c.SHA256, c.size = s.sum, read.size
	if read.sum != nil {
		c.SHA256 = read.hex()
	}
	return c, nil
}

// commit makes versions refer to content, in one transaction.
func (f *Files) commit(ctx context.Context, c content, first repo.StateChange, of versions) error {
	return f.store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		state, scope := tx.State(), shard(c.SHA256)
		changes := []repo.StateChange{first, remove(scope, lockKey)}
		if c.end.Key != "" {
			changes = append(changes, c.end)
		}
		if _, err := state.Change(ctx, changes); err != nil {
			return err
		}
		files, described, err := of(ctx, state, c)
		if err != nil {
			return err
		}
		refer := func(to ref, changes ...repo.StateChange) error {
			for _, file := range files {
				changes = append(changes, to.refer(file.ID, file.Owner)...)
			}
			return write(ctx, state, append(changes, described...))
		}
		if c.end.Key != "" {
			object := set(scope, "object/"+c.SHA256, encode(c.Blob))
			object.IfVersion = new(int64(0))
			err := refer(c.ref, object)
			if conflict, is := errors.AsType[*repo.VersionConflictError](err); !is || conflict.Name != object.Key {
				return err
			}
			described = append(described, set(scope, "trash/"+c.Blob, yes)) // another was faster
		}
		to := c.ref
		err = get(ctx, state, scope, "object/"+c.SHA256, &to.Blob)
		if errors.Is(err, repo.ErrNotFound) {
			return errFreed
		}
		if err != nil {
			return err
		}
		return refer(to)
	})
}

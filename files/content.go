package files

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/seed-df90f812/agentstore/repo"
)

// content is what versions are to refer to.
type content struct {
	ref
	size int64
	// put is the change that ends the note of an upload. Zero: the bytes were there.
	put repo.StateChange
}

// errFreed reports that bytes that were there have been removed since.
var errFreed = errors.New("the bytes were removed")

// versions returns the versions that are to refer to content, and further changes, in the transaction that makes them.
type versions func(ctx context.Context, state repo.State, c content) ([]File, []repo.StateChange, error)

// keep keeps the bytes of r, if the namespace does not have them, and has versions refer to them. first is changed
// first: it locks the owner.
//
// A reference never dangles. A new blob is noted before it is written, so that one whose process dies is found. The note
// ends in the transaction in which the first version refers to the blob, and only as it was made: a sweep that has given
// the upload up has taken it. Each transaction that refers to bytes has locked the scope of their hash, and then looks
// which blob has them. One that removes a blob has locked the same scope, and then looks whether anything refers to it.
func (f *Files) keep(ctx context.Context, r io.Reader, first repo.StateChange, of versions) error {
	ctx, cancel := context.WithTimeout(ctx, f.options.Grace/2)
	defer cancel()
	c, err := f.known(ctx, r)
	if err == nil && c.SHA256 != "" {
		if err = f.commit(ctx, c, first, of); err == nil {
			return nil
		}
	}
	if err != nil && !errors.Is(err, errFreed) {
		return err
	}
	if c, err = f.upload(ctx, r); err != nil {
		return err
	}
	return f.commit(ctx, c, first, of)
}

// known returns the bytes of r as content, if r can seek and the namespace has them, and otherwise the zero content. r is
// where it was.
func (f *Files) known(ctx context.Context, r io.Reader) (content, error) {
	seeker, can := r.(io.ReadSeeker)
	if !can {
		return content{}, nil
	}
	start, err := seeker.Seek(0, io.SeekCurrent)
	if err != nil {
		return content{}, nil //nolint:nilerr // such as of a pipe
	}
	bytes := f.counted(ctx, seeker)
	if _, err = io.Copy(io.Discard, bytes); err != nil {
		return content{}, err
	}
	if _, err = seeker.Seek(start, io.SeekStart); err != nil {
		return content{}, err
	}
	c := bytes.content()
	err = get(ctx, f.store.State(), shard(c.SHA256), "object/"+c.SHA256, &c.Blob)
	if errors.Is(err, repo.ErrNotFound) {
		return content{}, nil
	}
	return c, err
}

// upload puts the bytes of r under a new key, and notes that before.
func (f *Files) upload(ctx context.Context, r io.Reader) (content, error) {
	blob := f.prefix + rand.Text()
	note := set(shard(hashed([]byte(blob))), "put/"+blob, yes)
	made, err := f.store.State().Change(ctx, []repo.StateChange{note})
	if err != nil {
		return content{}, err
	}
	bytes := f.counted(ctx, r)
	if err := f.blobs.Put(ctx, blob, bytes); err != nil {
		return content{}, errors.Join(bytes.err, err)
	}
	if !bytes.ended {
		return content{}, errors.Join(bytes.err, fmt.Errorf("files: the blobs have not read all: %w", io.ErrShortWrite))
	}
	c := bytes.content()
	c.Blob, c.put = blob, remove(note.Scope, note.Key)
	c.put.IfVersion = &made[0].Version
	return c, nil
}

// commit makes versions refer to content, in one transaction.
func (f *Files) commit(ctx context.Context, c content, first repo.StateChange, of versions) error {
	return f.store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		state, r, scope := tx.State(), c.ref, shard(c.SHA256)
		changes := []repo.StateChange{first, remove(scope, lockKey)}
		if c.put.Key != "" {
			changes = append(changes, c.put)
		}
		if _, err := state.Change(ctx, changes); err != nil {
			return err
		}
		files, changes, err := of(ctx, state, c)
		if err != nil {
			return err
		}
		err = get(ctx, state, scope, "object/"+c.SHA256, &r.Blob)
		switch {
		case errors.Is(err, repo.ErrNotFound) && c.put.Key == "":
			return errFreed
		case errors.Is(err, repo.ErrNotFound):
			changes = append(changes, set(scope, "object/"+c.SHA256, encode(r.Blob)))
		case err != nil:
			return err
		case r.Blob != c.Blob: // another was faster
			changes = append(changes, set(scope, "trash/"+c.Blob, yes))
		}
		for _, file := range files {
			changes = append(changes, r.refer(file.ID, file.Owner)...)
		}
		return write(ctx, state, changes)
	})
}

// counted reads what is to be kept.
func (f *Files) counted(ctx context.Context, r io.Reader) *counted {
	return &counted{ctx: ctx, r: r, most: f.options.MaxBytes, sum: sha256.New()}
}

type counted struct {
	ctx        context.Context //nolint:containedctx // that of the call for which it reads
	r          io.Reader
	most, size int64
	sum        hash.Hash
	ended      bool
	err        error // r's, or that there is too much
}

func (c *counted) content() content {
	return content{ref: ref{SHA256: hex.EncodeToString(c.sum.Sum(nil))}, size: c.size}
}

func (c *counted) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.r.Read(p)
	c.sum.Write(p[:n])
	if c.size += int64(n); c.size > c.most {
		err = &repo.LimitExceededError{Kind: "bytes of a file", Limit: c.most}
	}
	if c.ended = errors.Is(err, io.EOF); err != nil && !c.ended {
		c.err = err
	}
	return n, err
}

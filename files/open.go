package files

import (
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/seed-df90f812/agentstore/internal/pages"
	"github.com/seed-df90f812/agentstore/repo"
)

// Reader reads a version, and seeks in it. It holds no connection between two calls. It is not safe for concurrent use.
type Reader struct {
	File

	ctx   context.Context //nolint:containedctx // Open's, as of a request
	blobs Blobs
	blob  string
	at    int64
	body  io.ReadCloser
}

// Open returns a version of a file as a reader, which ends with ctx; version 0 is the newest one. Errors: InvalidError;
// NotFoundError, also for a session's file whose bytes were not imported (Import).
func (f *Files) Open(ctx context.Context, owner Owner, name string, version int64) (*Reader, error) {
	err := cmp.Or(owner.check(), checkName(name), invalidIf(version < 0, "version", "is negative"))
	if err != nil {
		return nil, err
	}
	key := versionKey(name, version)
	if version == 0 {
		key = lastKey(name)
	}
	return f.open(ctx, owner, key)
}

// OpenID is Open for the id of a version, which one owner has, and a fork of that session. The id of another owner's,
// or of another namespace's, is not found.
func (f *Files) OpenID(ctx context.Context, owner Owner, id string) (*Reader, error) {
	if err := cmp.Or(owner.check(), checkID(id)); err != nil {
		return nil, err
	}
	var key string
	if err := get(ctx, f.store.State(), owner.scope, idKey(id), &key); err != nil {
		return nil, err
	}
	return f.open(ctx, owner, key)
}

func (f *Files) open(ctx context.Context, owner Owner, key string) (*Reader, error) {
	r := &Reader{ctx: ctx, blobs: f.blobs}
	if err := get(ctx, f.store.State(), owner.scope, key, &r.File); err != nil {
		return nil, err
	}
	if err := checkID(r.ID); err != nil {
		return nil, err
	}
	var at ref
	if err := get(ctx, f.store.State(), shard(r.ID), refKey(r.ID, owner), &at); err != nil {
		return nil, err
	}
	if at.SHA256 != r.SHA256 { // the state was written by hand
		return nil, &repo.NotFoundError{Kind: "file"}
	}
	r.Owner, r.blob = owner, at.Blob
	return r, nil
}

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if r.at >= r.Size {
		return 0, io.EOF
	}
	if r.body == nil {
		body, err := r.blobs.Get(r.ctx, r.blob, r.at)
		if err != nil {
			return 0, err
		}
		r.body = body
	}
	n, err := r.body.Read(p[:min(int64(len(p)), r.Size-r.at)])
	r.at += int64(n)
	if errors.Is(err, io.EOF) {
		if err = nil; r.at < r.Size {
			err = io.ErrUnexpectedEOF
		}
	}
	if err != nil {
		_ = r.Close() // the next call asks the Blobs again
	}
	return n, err
}

// Seek implements io.Seeker. It reads nothing.
func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	at := offset + map[int]int64{io.SeekCurrent: r.at, io.SeekEnd: r.Size}[whence]
	if whence < io.SeekStart || whence > io.SeekEnd || at < 0 {
		return 0, invalidIf(true, "offset", "is before the begin, or whence is unknown")
	}
	if at == r.at {
		return at, nil
	}
	r.at = at
	return at, r.Close()
}

// Close releases what the Blobs hold. The reader can be used again.
func (r *Reader) Close() error {
	body := r.body
	if r.body = nil; body == nil {
		return nil
	}
	return body.Close()
}

// List returns one page of an owner's files, each by its newest version, by the bytes of their names.
func (f *Files) List(ctx context.Context, owner Owner, page repo.Page) (repo.List[File], error) {
	return records(ctx, f.store.State(), owner, "file-last/", page)
}

// Versions returns one page of the versions of a file that are there, ascending. A name that has none has an empty
// page.
func (f *Files) Versions(ctx context.Context, owner Owner, name string, page repo.Page) (repo.List[File], error) {
	if err := checkName(name); err != nil {
		return repo.List[File]{}, err
	}
	return records(ctx, f.store.State(), owner, repo.JoinKey("file", name, ""), page)
}

// records returns one page of the versions whose keys begin with prefix.
func records(ctx context.Context, state repo.State, owner Owner, prefix string, page repo.Page) (
	list repo.List[File], err error,
) {
	if err := owner.check(); err != nil {
		return list, err
	}
	found, err := state.List(ctx, owner.scope, prefix, page)
	list.Next = found.Next
	for i := 0; err == nil && i < len(found.Values); i++ {
		file := File{Owner: owner}
		err = decode(found.Values[i], &file)
		list.Items = append(list.Items, file)
	}
	return list, err
}

// all returns all versions of an owner whose keys begin with prefix, each file's ascending.
func all(ctx context.Context, state repo.State, owner Owner, prefix string) (found []File, err error) {
	err = pages.Items(func(page repo.Page) (repo.List[File], error) {
		return records(ctx, state, owner, prefix, page)
	}, func(file File) error { found = append(found, file); return nil })
	return found, err
}

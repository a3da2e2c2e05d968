// Package filespg keeps the bytes of files (package files) in PostgreSQL, in the table file_chunks of the store's schema.
package filespg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
)

// chunk is how many bytes a row has, but for the last one of a blob. What is stored has it: it never changes.
const chunk = 1 << 20

// removed is how many rows a transaction removes.
const removed = 64

// Blobs implements files.Blobs. Each call has a connection for one chunk at a time, of which it holds at most two in
// memory, and no transaction lasts longer than that of a chunk. Errors: repo.ErrUnavailable for those of the database.
type Blobs struct {
	pool    *pgxpool.Pool
	queries *db.Queries
}

// New returns blobs in the database of a pool, which has to be that of the store with which package files uses them, such
// as agentstore.Store.Pool: a chunk is on the disk only when what the store commits later is. Errors: InvalidError.
func New(pool *pgxpool.Pool) (*Blobs, error) {
	if pool == nil {
		return nil, &repo.InvalidError{Field: "pool", Reason: "is nil"}
	}
	return &Blobs{pool, db.New()}, nil
}

// split parts a key into its namespace and the rest.
func split(key string) (namespace, blob string) {
	i := strings.LastIndex(key, "/")
	return key[:max(i, 0)], key[i+1:]
}

// Put implements files.Blobs.
func (b *Blobs) Put(ctx context.Context, key string, r io.Reader) error {
	row := db.FileChunkInsertParams{}
	row.Namespace, row.Blob = split(key)
	data := make([]byte, chunk)
	for {
		n, err := io.ReadFull(r, data)
		ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !ended {
			return err
		}
		if n > 0 || row.Position == 0 {
			row.Data = data[:n]
			if err := b.queries.FileChunkInsert(ctx, b.pool, row); err != nil {
				return failed(ctx, err)
			}
		}
		if ended {
			return nil
		}
		row.Position++
	}
}

// Delete implements files.Blobs.
func (b *Blobs) Delete(ctx context.Context, key string) error {
	namespace, blob := split(key)
	for {
		n, err := b.queries.FileChunkDelete(ctx, b.pool, db.FileChunkDeleteParams{
			Namespace: namespace, Blob: blob, MaxRows: removed,
		})
		if err != nil || n < removed {
			return failed(ctx, err)
		}
	}
}

// Get implements files.Blobs.
func (b *Blobs) Get(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	namespace, blob := split(key)
	at := db.FileChunkGetParams{
		Namespace: namespace, Blob: blob, Position: int32(offset / chunk),
		First: int32(offset%chunk) + 1,
	}
	r := &reader{ctx: ctx, blobs: b, at: at, full: chunk - int(offset%chunk)}
	return r, r.next()
}

// reader has what is left of a chunk.
type reader struct {
	ctx   context.Context //nolint:containedctx // that of Get
	blobs *Blobs
	at    db.FileChunkGetParams
	data  []byte
	full  int  // how much a chunk has that another one follows
	last  bool // none follows
}

// next reads the next chunk.
func (r *reader) next() (err error) {
	r.data, err = r.blobs.queries.FileChunkGet(r.ctx, r.blobs.pool, r.at)
	if errors.Is(err, pgx.ErrNoRows) {
		if r.last = true; r.full == chunk && r.at.Position > 0 { // the one before was full
			return nil
		}
		return &repo.NotFoundError{Kind: "blob", Name: r.at.Blob}
	}
	r.last = len(r.data) < r.full
	r.full, r.at.First = chunk, 1
	r.at.Position++
	return failed(r.ctx, err)
}

func (r *reader) Read(p []byte) (int, error) {
	for len(r.data) == 0 {
		if r.last {
			return 0, io.EOF
		}
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.data)
	r.data = r.data[n:]
	return n, nil
}

func (r *reader) Close() error {
	r.data, r.last = nil, true
	return nil
}

// failed returns an error of the database without its details, which have values.
func failed(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %s", repo.ErrUnavailable, err.Error())
}

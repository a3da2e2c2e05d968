// Package filespg keeps the bytes of files (package files) in PostgreSQL, in the table file_chunks of the store's
// schema.
package filespg

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
)

// A row has rowBytes bytes, as in queries/files.sql, but for the last one of a blob, and always will. A statement has
// maxRows rows, a little more than 1 MiB, and the first one of a reader, which may want little, firstRows.
const rowBytes, maxRows, firstRows = 7900, 133, 8

// maxRemoved is how many rows a transaction removes.
const maxRemoved = 10_000

// Blobs implements files.Blobs. Each call has a connection for one statement at a time, of whose bytes it holds about
// three copies in memory, and no transaction lasts longer than one. Errors: repo.ErrUnavailable for the database's
// errors.
type Blobs struct {
	pool    *pgxpool.Pool
	queries *db.Queries
	buffers sync.Pool // of pointers to rows
}

// New returns blobs in the database of a pool, which has to be the pool of the store with which package files uses
// them, such as agentstore.Store.Pool: a chunk is on the disk only when what the store commits later is. Errors:
// InvalidError.
func New(pool *pgxpool.Pool) (*Blobs, error) {
	if pool == nil {
		return nil, &repo.InvalidError{Field: "pool", Reason: "is nil"}
	}
	return &Blobs{pool: pool, queries: db.New(), buffers: sync.Pool{New: func() any { return new(rows) }}}, nil
}

// rows are the bytes of maxRows rows, and what bytes.Buffer wants to have free.
type rows [maxRows*rowBytes + bytes.MinRead]byte

// split parts a key into its namespace and the rest.
func split(key string) (namespace, blob string) {
	i := strings.LastIndex(key, "/")
	return key[:max(i, 0)], key[i+1:]
}

// Put implements files.Blobs.
func (b *Blobs) Put(ctx context.Context, key string, r io.Reader) error {
	row := db.FileChunksInsertParams{}
	row.Namespace, row.Blob = split(key)
	data := b.buffers.Get().(*rows)
	defer b.buffers.Put(data)
	for {
		read := bytes.NewBuffer(data[:0])
		n, err := read.ReadFrom(io.LimitReader(r, maxRows*rowBytes))
		if err != nil {
			return err
		}
		if n > 0 || row.First == 0 {
			row.Data = read.Bytes()
			if err := b.queries.FileChunksInsert(ctx, b.pool, row); err != nil {
				return failed(ctx, err)
			}
		}
		if n < maxRows*rowBytes {
			return nil
		}
		row.First += maxRows
	}
}

// Delete implements files.Blobs.
func (b *Blobs) Delete(ctx context.Context, key string) error {
	namespace, blob := split(key)
	for {
		found, err := b.queries.FileChunksDelete(ctx, b.pool, db.FileChunksDeleteParams{
			Namespace: namespace, Blob: blob, MaxRows: maxRemoved,
		})
		if err != nil || found < maxRemoved {
			return failed(ctx, err)
		}
	}
}

// Get implements files.Blobs.
func (b *Blobs) Get(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	at := db.FileChunksGetParams{First: int32(offset / rowBytes)}
	at.Namespace, at.Blob = split(key)
	at.Before = at.First + firstRows
	r := &reader{ctx: ctx, blobs: b, at: at}
	err := r.next()
	if err == nil && r.data == nil && offset == 0 {
		err = &repo.NotFoundError{Kind: "blob", Name: at.Blob}
	}
	r.data = r.data[min(int(offset%rowBytes), len(r.data)):]
	return r, err
}

// reader has the rest of some rows.
type reader struct {
	ctx   context.Context //nolint:containedctx // Get's
	blobs *Blobs
	at    db.FileChunksGetParams
	data  []byte
	last  bool // no more rows follow
}

// next reads the next rows.
func (r *reader) next() (err error) {
	r.data, err = r.blobs.queries.FileChunksGet(r.ctx, r.blobs.pool, r.at)
	r.last = len(r.data) < int(r.at.Before-r.at.First)*rowBytes
	r.at.First, r.at.Before = r.at.Before, r.at.Before+maxRows
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

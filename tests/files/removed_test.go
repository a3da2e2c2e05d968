package files

import (
	"bytes"
	"io"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Of bytes that are being removed a reader gets those that were there, or an error, and never those from further on.
func TestPartlyRemoved(t *testing.T) {
	t.Parallel()
	const row, rows = 7900, 30
	store := pgtest.NewStore(t, agentstore.Options{})
	blobs := newBlobs(t, store)
	var data []byte
	for n := range rows {
		data = append(data, bytes.Repeat([]byte{byte(n)}, row)...)
	}
	if err := blobs.Put(t.Context(), "default/b", bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	for {
		part := db.FileChunksDeleteParams{Namespace: "default", Blob: "b", MaxRows: 7}
		found, err := db.New().FileChunksDelete(t.Context(), store.Pool(), part)
		if err != nil {
			t.Fatal(err)
		}
		for offset := row; offset < len(data); offset += row {
			r, err := blobs.Get(t.Context(), "default/b", int64(offset))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(r); err != nil || !bytes.HasPrefix(data[offset:], got) {
				t.Fatalf("%d bytes from %d on are others, %v", len(got), offset, err)
			}
		}
		if found < 7 {
			break
		}
	}
}

// A removal beside one that is ended after its first statement removes the rest.
func TestRemovedTwice(t *testing.T) {
	t.Parallel()
	const rows = 10_020 // more than one statement removes
	store := pgtest.NewStore(t, agentstore.Options{})
	blobs := newBlobs(t, store)
	pgtest.Exec(t, store.Pool(), "INSERT INTO file_chunks SELECT 'default', 'b', n, 'x' FROM generate_series(1, $1::integer) n", rows)
	tx, err := store.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	part := db.FileChunksDeleteParams{Namespace: "default", Blob: "b", MaxRows: 10_000}
	if _, err := db.New().FileChunksDelete(t.Context(), tx, part); err != nil {
		t.Fatal(err)
	}
	removed := make(chan error, 1)
	go func() { removed <- blobs.Delete(t.Context(), "default/b") }()
	pgtest.AwaitLockWait(t, store.Pool(), 1)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-removed; err != nil {
		t.Fatal(err)
	}
	if left := pgtest.Value[int](t, store.Pool(), "SELECT count(*) FROM file_chunks"); left != 0 {
		t.Errorf("%d rows are left", left)
	}
}

package filestest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/seed-df90f812/agentstore/files"
	"github.com/seed-df90f812/agentstore/repo"
)

// RunBlobs tests a Blobs, each test on one of its own, or on one that other tests use, too.
func RunBlobs(t *testing.T, open func(*testing.T) files.Blobs) {
	for name, test := range map[string]func(*testing.T, files.Blobs){
		"Sizes": testSizes, "Missing": testMissing, "Failing": testFailing, "Ended": testEnded, "AtOnce": testAtOnce,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func newKey() string { return "acme%2Fberlin/" + rand.Text() }

func random(size int) []byte {
	data := make([]byte, size)
	_, _ = rand.Read(data)
	return data
}

func put(t *testing.T, blobs files.Blobs, key string, data []byte) {
	t.Helper()
	if err := blobs.Put(t.Context(), key, onlyReader{bytes.NewReader(data)}); err != nil {
		t.Fatal(err)
	}
}

// onlyReader hides that a reader can do more.
type onlyReader struct{ io.Reader }

// reads returns the bytes from an offset on.
func reads(ctx context.Context, blobs files.Blobs, key string, offset int) ([]byte, error) {
	r, err := blobs.Get(ctx, key, int64(offset))
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	return data, errors.Join(err, r.Close())
}

// What was put is there, from each offset on.
func testSizes(t *testing.T, blobs files.Blobs) {
	const part = 1 << 20
	for _, size := range []int{0, 1, 1000, part - 1, part, part + 1, 3*part + 17} {
		key, data := newKey(), random(size)
		put(t, blobs, key, data)
		for _, offset := range []int{0, 1, part - 1, part, part + 1, 2 * part, size - 1, size} {
			if offset < 0 || offset > size {
				continue
			}
			if got, err := reads(t.Context(), blobs, key, offset); err != nil || !bytes.Equal(got, data[offset:]) {
				t.Errorf("%d bytes from %d on: %d, %v", size, offset, len(got), err)
			}
		}
	}
}

// What is not there, or no longer, is not found, and may be deleted.
func testMissing(t *testing.T, blobs files.Blobs) {
	key, other := newKey(), newKey()
	if got, err := reads(t.Context(), blobs, key, 0); !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	put(t, blobs, key, random(3<<20))
	put(t, blobs, other, []byte("other"))
	for range 2 {
		if err := blobs.Delete(t.Context(), key); err != nil {
			t.Error(err)
		}
	}
	if got, err := reads(t.Context(), blobs, key, 0); !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if got, err := reads(t.Context(), blobs, other, 0); err != nil || string(got) != "other" {
		t.Errorf("%q, %v", got, err)
	}
}

// A reader's error is that of Put, also if it is like that of the end, and the part may be deleted.
func testFailing(t *testing.T, blobs files.Blobs) {
	for _, broken := range []error{errors.New("broken"), io.ErrUnexpectedEOF, fmt.Errorf("of a part: %w", io.EOF)} {
		testBroken(t, blobs, broken)
	}
}

func testBroken(t *testing.T, blobs files.Blobs, broken error) {
	t.Helper()
	key := newKey()
	failing := io.MultiReader(bytes.NewReader(random(2<<20)), readerFunc(func([]byte) (int, error) { return 0, broken }))
	if err := blobs.Put(t.Context(), key, failing); !errors.Is(err, broken) {
		t.Error(err)
	}
	if err := blobs.Delete(t.Context(), key); err != nil {
		t.Error(err)
	}
	if got, err := reads(t.Context(), blobs, key, 0); !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A context that has ended ends a call.
func testEnded(t *testing.T, blobs files.Blobs) {
	key := newKey()
	put(t, blobs, key, []byte("here"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := blobs.Put(ctx, newKey(), bytes.NewReader(random(10))); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := reads(ctx, blobs, key, 0); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := blobs.Delete(ctx, key); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Many are put and read at once.
func testAtOnce(t *testing.T, blobs files.Blobs) {
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			key, data := newKey(), fmt.Appendf(random(1<<20), "%d", n)
			if err := blobs.Put(t.Context(), key, bytes.NewReader(data)); err != nil {
				t.Error(err)
			}
			if got, err := reads(t.Context(), blobs, key, 10); err != nil || !bytes.Equal(got, data[10:]) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
	all.Wait()
}

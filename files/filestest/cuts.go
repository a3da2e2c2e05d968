package filestest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/seed-df90f812/agentstore/files"
	"github.com/seed-df90f812/agentstore/repo"
)

// cut has some bytes, and the last of them with an error, which it tells once.
type cut struct {
	left int
	err  error
}

func (c *cut) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), c.left)
	if c.left -= n; c.left == 0 {
		return n, c.err
	}
	return n, nil
}

// What was cut is no version: by the error that a request's body has when the client is gone, by one that wraps the
// end of something else, and by one that comes with the last byte that a buffer has place for.
func testCut(w *world) {
	for _, size := range []int{1, 1000, 1 << 20, 1<<20 + 1, 1<<20 + 2, 3 << 20} {
		for _, broken := range []error{io.ErrUnexpectedEOF, fmt.Errorf("of a part: %w", io.EOF), errors.New("broken")} {
			file, err := w.Save(w.Context(), files.OfNamespace(), files.NewFile{Name: "f"}, &cut{size, broken})
			if !errors.Is(err, broken) {
				w.Errorf("%d bytes, %v: %+v, %v", size, broken, file, err)
			}
		}
	}
	w.clean(0)
}

// A reader that blocks is not waited for when the context has ended.
func testBlocked(w *world) {
	for _, before := range []int{0, 100, 3 << 20} {
		ctx, cancel := context.WithCancel(w.Context())
		blocked := readerFunc(func([]byte) (int, error) {
			cancel()
			<-w.Context().Done() // when the test has ended
			return 0, io.EOF
		})
		r := io.MultiReader(bytes.NewReader(random(before)), blocked)
		if _, err := w.Save(ctx, files.OfNamespace(), files.NewFile{Name: "f"}, r); !errors.Is(err, context.Canceled) {
			w.Error(err)
		}
		if err := w.Import(ctx, w.session(), blocked); !errors.Is(err, context.Canceled) {
			w.Error(err)
		}
	}
	w.clean(0)
}

// once are blobs whose readers fail once.
type once struct {
	files.Blobs
	failed bool
}

var errOnce = errors.New("the connection was lost")

func (o *once) Get(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	r, err := o.Blobs.Get(ctx, key, offset)
	if err != nil || o.failed {
		return r, err
	}
	o.failed = true
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(r, 3), readerFunc(func([]byte) (int, error) { return 0, errOnce })), r}, nil
}

// A reader goes on after an error of the blobs, and ends with its context.
func testEndedReader(w *world) {
	owner := files.OfNamespace()
	w.save(owner, "f", "0123456789")
	f, err := files.New(w.all.Store, namespace, &once{Blobs: w.all.Blobs}, files.Options{})
	w.check(err)
	ctx, cancel := context.WithCancel(w.Context())
	r, err := f.Open(ctx, owner, "f", 0)
	w.check(err)
	first, err := io.ReadAll(r)
	if string(first) != "012" || !errors.Is(err, errOnce) {
		w.Errorf("%q, %v", first, err)
	}
	some := make([]byte, 2)
	if _, err := io.ReadFull(r, some); err != nil || string(some) != "34" {
		w.Errorf("%q, %v", some, err)
	}
	cancel()
	if n, err := r.Read(some); !errors.Is(err, context.Canceled) {
		w.Error(n, err)
	}
	w.check(r.Close())
}

// asked is a store that does something before it tells whether an owner has a version.
type asked struct {
	repo.Store
	do func()
}

func (a asked) State() repo.State { return askedState{a.Store.State(), a.do} }

type askedState struct {
	repo.State
	do func()
}

func (a askedState) Get(ctx context.Context, scope repo.Scope, key string) (repo.StateValue, error) {
	value, err := a.State.Get(ctx, scope, key)
	if strings.HasPrefix(key, "file-id/") {
		a.do()
	}
	return value, err
}

// A session that is restored after a sweep has found it gone, and before that removes its references, keeps them.
func testRestoredMeanwhile(w *world) {
	id := w.session()
	file := w.save(files.OfSession(id), "f", "one")
	document, archive := w.document(id)
	_, err := w.store.Sessions().Delete(w.Context(), id)
	w.check(err)
	restored := false
	sweeper, err := files.New(asked{w.store, func() {
		if !restored {
			restored = true
			_, err := w.store.Sessions().Import(w.Context(), bytes.NewReader(document.Bytes()), true)
			w.check(err)
			w.check(w.Import(w.Context(), id, bytes.NewReader(archive.Bytes())))
		}
	}}, namespace, w.blobs, files.Options{})
	w.check(err)
	_, err = sweeper.Sweep(w.Context(), 0)
	w.check(err)
	if !restored {
		w.Error("the sweep has not asked")
	}
	w.clean(1)
	w.has(files.OfSession(id), file, "one")
}

// Package filestest tests package files on a store, and any files.Blobs.
package filestest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/files"
	"github.com/seed-df90f812/agentstore/repo"
)

// Store is a whole store and blobs with nothing in them, and how what is in the state becomes older.
type Store struct {
	Store interface {
		repo.Store
		In(namespace string) repo.Store
	}
	Blobs  files.Blobs
	Elapse func(time.Duration)
}

// Run tests the package, each test on a store of its own.
func Run(t *testing.T, open func(*testing.T) Store) {
	for name, test := range map[string]func(*world){
		"Versions": testVersions, "Same": testSame, "Seek": testSeek, "Names": testNames, "Invalid": testInvalid, "TooLarge": testTooLarge,
		"Owners": testOwners, "Delete": testDelete, "Held": testHeld, "DeletedSession": testDeletedSession, "Erased": testErased,
		"Fork": testFork, "Forged": testForged, "Transfer": testTransfer, "ForeignTransfer": testForeignTransfer,
		"FailedSave": testFailedSave, "GivenUp": testGivenUp, "Shared": testShared, "Rounds": testRounds, "FailedDelete": testFailedDelete,
		"Writers": testWriters, "Sweepers": testSweepers, "Freed": testFreed, "Restored": testRestored, "RestoredMeanwhile": testRestoredMeanwhile,
		"Cut": testCut, "Blocked": testBlocked, "EndedReader": testEndedReader, "Handler": testHandler, "Views": testViews,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newWorld(t, open(t)))
		})
	}
}

// world is the files of one namespace.
type world struct {
	*testing.T
	*files.Files

	all   Store
	store repo.Store // the view
	blobs *watched
}

const namespace = "acme"

func newWorld(t *testing.T, all Store) *world {
	t.Helper()
	w := &world{T: t, all: all, store: all.Store.In(namespace), blobs: &watched{Blobs: all.Blobs, has: map[string]int64{}}}
	w.Files = w.files(namespace, files.Options{})
	return w
}

func (w *world) files(namespace string, options files.Options) *files.Files {
	w.Helper()
	f, err := files.New(w.all.Store, namespace, w.blobs, options)
	if err != nil {
		w.Fatal(err)
	}
	return f
}

// watched are blobs that know what is in them, and fail when they are told to.
type watched struct {
	files.Blobs

	mu   sync.Mutex
	has  map[string]int64 // by key: bytes
	puts int
	fail func(key string) error // of Delete
	put  func()                 // before Put
}

func (b *watched) Put(ctx context.Context, key string, r io.Reader) error {
	if b.put != nil {
		b.put()
	}
	counted := &countingReader{Reader: r}
	err := b.Blobs.Put(ctx, key, counted)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.puts++
	b.has[key] = counted.n
	return err
}

type countingReader struct {
	io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

func (b *watched) Delete(ctx context.Context, key string) error {
	if b.fail != nil {
		if err := b.fail(key); err != nil {
			return err
		}
	}
	err := b.Blobs.Delete(ctx, key)
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.has, key)
	return err
}

func (b *watched) keys() (keys []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key := range b.has {
		keys = append(keys, key)
	}
	return keys
}

func (w *world) hasBlobs(want int) {
	w.Helper()
	if got := w.blobs.keys(); len(got) != want {
		w.Errorf("%d blobs, want %d: %v", len(got), want, got)
	}
}

func (w *world) session() repo.ID {
	w.Helper()
	session, err := w.store.Sessions().Create(w.Context(), repo.NewSession{Owner: "jane"})
	w.check(err)
	return session.ID
}

func (w *world) check(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) append(session repo.ID, content string) {
	w.Helper()
	_, err := w.store.Sessions().Append(w.Context(), session, repo.NewMessage{Role: repo.RoleUser, Content: content})
	w.check(err)
}

func (w *world) save(owner files.Owner, name, text string) files.File {
	w.Helper()
	file, err := w.Save(w.Context(), owner, files.NewFile{Name: name, Type: "text/plain"}, strings.NewReader(text))
	w.check(err)
	return file
}

// has checks what a version has, by its number and by its id.
func (w *world) has(owner files.Owner, file files.File, text string) {
	w.Helper()
	for by, open := range map[string]func() (*files.Reader, error){
		"number": func() (*files.Reader, error) { return w.Open(w.Context(), owner, file.Name, file.Version) },
		"id":     func() (*files.Reader, error) { return w.OpenID(w.Context(), owner, file.ID) },
	} {
		r, err := open()
		if err != nil {
			w.Errorf("%s %d by its %s: %v", file.Name, file.Version, by, err)
			continue
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != text {
			w.Errorf("%s %d by its %s: %q, %v", file.Name, file.Version, by, got, err)
		}
		w.check(r.Close())
	}
}

func (w *world) hasNot(owner files.Owner, file files.File) {
	w.Helper()
	_, err := w.Open(w.Context(), owner, file.Name, file.Version)
	_, errID := w.OpenID(w.Context(), owner, file.ID)
	if !errors.Is(err, repo.ErrNotFound) || !errors.Is(errID, repo.ErrNotFound) {
		w.Errorf("%s %d: %v, %v", file.Name, file.Version, err, errID)
	}
}

// sweep sweeps a whole round.
func (w *world) sweep() (total files.Swept) {
	w.Helper()
	for {
		swept, err := w.Sweep(w.Context(), 0)
		w.check(err)
		total.References += swept.References
		total.Blobs += swept.Blobs
		if !swept.More {
			return total
		}
	}
}

// clean lets the grace pass, and checks that nothing but bytes that are used are left.
func (w *world) clean(blobs int) {
	w.Helper()
	for range 2 {
		w.sweep()
		w.all.Elapse(2 * time.Hour)
	}
	w.sweep()
	w.hasBlobs(blobs)
	if left := w.keys("put/", "free/", "trash/", "gone/"); left != 0 {
		w.Errorf("%d keys are left", left)
	}
	if objects := w.keys("object/"); objects != blobs {
		w.Errorf("%d objects, want %d", objects, blobs)
	}
}

// keys counts the keys in the shared scopes.
func (w *world) keys(prefixes ...string) (n int) {
	w.Helper()
	for _, digit := range "0123456789abcdef" {
		for _, prefix := range prefixes {
			page, err := w.store.State().List(w.Context(), repo.Scope{Name: "files/shard/" + string(digit)}, prefix, repo.Page{Limit: repo.MaxPageSize})
			w.check(err)
			n += len(page.Values)
		}
	}
	return n
}

func read(r io.Reader) string {
	data, err := io.ReadAll(r)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func object(text string) json.RawMessage { return json.RawMessage(text) }

func reader(text string) io.Reader { return onlyReader{bytes.NewBufferString(text)} }

package filestest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-df90f812/agentstore/files"
	"github.com/seed-df90f812/agentstore/repo"
)

// Deleted versions are gone at once, their bytes after the grace, and their numbers are not given again.
func testDelete(w *world) {
	owner := files.OfSession(w.session())
	first, second, other := w.save(owner, "f", "one"), w.save(owner, "f", "two"), w.save(owner, "g", "two")
	if n, err := w.Delete(w.Context(), owner, "f"); n != 2 || err != nil {
		w.Error(n, err)
	}
	w.hasNot(owner, first)
	w.hasNot(owner, second)
	w.has(owner, other, "two")
	if _, err := w.Delete(w.Context(), owner, "f"); !errors.Is(err, repo.ErrNotFound) {
		w.Error(err)
	}
	if found, err := w.List(w.Context(), owner, repo.Page{}); err != nil || len(found.Items) != 1 {
		w.Error(found, err)
	}
	if swept := w.sweep(); swept.References != 2 || swept.Blobs != 0 {
		w.Errorf("%+v", swept)
	}
	w.all.Elapse(59 * time.Minute)
	w.sweep()
	w.hasBlobs(2)
	w.all.Elapse(2 * time.Minute)
	w.sweep()
	w.hasBlobs(1)
	w.has(owner, other, "two")
	if again := w.save(owner, "f", "one"); again.Version != 3 {
		w.Errorf("%+v", again)
	}
	w.clean(2)
}

// What is held is not deleted.
func testHeld(w *world) {
	id := w.session()
	of := map[string]files.Owner{"session": files.OfSession(id), "user": files.OfUser("jane"), "namespace": files.OfNamespace(), "other": files.OfUser("joe")}
	for _, owner := range of {
		w.save(owner, "f", "held")
	}
	for _, c := range []struct {
		hold repo.LegalHold
		held string
	}{
		{repo.LegalHold{SessionID: id}, "session"},
		{repo.LegalHold{Namespace: namespace, Owner: "jane"}, "session user"},
		{repo.LegalHold{Namespace: namespace}, "session user namespace other"},
	} {
		c.hold.Reason = "a lawsuit"
		w.check(w.store.Sessions().AddHold(w.Context(), c.hold))
		for name, owner := range of {
			_, err := w.Delete(w.Context(), owner, "f")
			refused, is := errors.AsType[*repo.RefusedError](err)
			if held := strings.Contains(c.held, name); held != (is && refused.Kind == "hold") {
				w.Errorf("%+v: %s: %v", c.hold, name, err)
			}
			if err == nil {
				w.save(owner, "f", "held")
			}
		}
		w.check(w.store.Sessions().RemoveHold(w.Context(), c.hold))
	}
	w.clean(1)
}

// The files of a session go with it.
func testDeletedSession(w *world) {
	id := w.session()
	owner := files.OfSession(id)
	file, kept := w.save(owner, "f", "one"), w.save(files.OfUser("jane"), "f", "two")
	for n := range 20 {
		w.save(owner, "g", fmt.Sprint(n))
	}
	w.clean(22)
	_, err := w.store.Sessions().Delete(w.Context(), id)
	w.check(err)
	w.hasNot(owner, file)
	w.clean(1)
	w.has(files.OfUser("jane"), kept, "two")
}

// The files of a person go with the scope that is erased.
func testErased(w *world) {
	jane, joe := files.OfUser("jane"), files.OfUser("joe")
	file, kept := w.save(jane, "f", "one"), w.save(joe, "f", "two")
	shared := w.save(jane, "g", "two")
	_, err := w.store.State().Erase(w.Context(), files.ScopeOf("jane"))
	w.check(err)
	w.hasNot(jane, file)
	w.hasNot(jane, shared)
	w.clean(1)
	w.has(joe, kept, "two")
	if again := w.save(jane, "f", "one"); again.Version != 1 {
		w.Errorf("%+v", again)
	}
}

// A fork has the files that its transcript may refer to, and keeps them.
func testFork(w *world) {
	id := w.session()
	owner := files.OfSession(id)
	first := w.save(owner, "f", "one")
	w.append(id, "refers to one")
	second := w.save(owner, "f", "two")
	w.append(id, "refers to two")
	third := w.save(owner, "f", "three")
	puts := w.blobs.puts
	fork, err := w.Fork(w.Context(), id, 1, repo.NewSession{ID: repo.NewID()})
	w.check(err)
	again, err := w.Fork(w.Context(), id, 1, repo.NewSession{ID: fork.ID})
	if err != nil || !again.Existed {
		w.Errorf("%+v, %v", again, err)
	}
	to := files.OfSession(fork.ID)
	w.has(to, first, "one")
	w.has(to, second, "two")
	w.hasNot(to, third)
	if w.blobs.puts != puts {
		w.Error("bytes were copied")
	}
	_, err = w.store.Sessions().Delete(w.Context(), id)
	w.check(err)
	w.clean(2)
	w.has(to, first, "one")
	w.has(to, second, "two")
	if own := w.save(to, "f", "four"); own.Version != 3 {
		w.Errorf("%+v", own)
	}
	later, err := w.Fork(w.Context(), fork.ID, 0, repo.NewSession{})
	w.check(err)
	w.has(files.OfSession(later.ID), first, "one")
	w.hasNot(files.OfSession(later.ID), second)
}

// A failed save leaves no version, and its bytes are removed.
func testFailedSave(w *world) {
	broken := errors.New("broken")
	failing := io.MultiReader(reader(string(random(2<<20))), readerFunc(func([]byte) (int, error) { return 0, broken }))
	if _, err := w.Save(w.Context(), files.OfNamespace(), files.NewFile{Name: "f"}, failing); !errors.Is(err, broken) {
		w.Error(err)
	}
	ctx, cancel := context.WithCancel(w.Context())
	w.blobs.put = cancel
	if _, err := w.Save(ctx, files.OfNamespace(), files.NewFile{Name: "f"}, reader("x")); !errors.Is(err, context.Canceled) {
		w.Error(err)
	}
	w.blobs.put = nil
	if file := w.save(files.OfNamespace(), "f", "x"); file.Version != 1 {
		w.Errorf("%+v", file)
	}
	if left := w.keys("put/"); left != 16-1 {
		w.Errorf("%d notes", left)
	}
	w.sweep()
	w.hasBlobs(3)
	w.clean(1)
}

// A save that takes longer than the grace is refused, once a sweep has given it up, and nothing refers to its bytes.
func testGivenUp(w *world) {
	w.blobs.put = func() {
		w.all.Elapse(2 * time.Hour)
		w.sweep()
	}
	if _, err := w.Save(w.Context(), files.OfNamespace(), files.NewFile{Name: "f"}, reader("late")); !errors.Is(err, repo.ErrConflict) {
		w.Error(err)
	}
	w.blobs.put = nil
	if found, err := w.Versions(w.Context(), files.OfNamespace(), "f", repo.Page{}); err != nil || len(found.Items) != 0 {
		w.Error(found, err)
	}
}

// Two that save the same bytes at once keep one blob.
func testShared(w *world) {
	a, b := files.OfUser("a"), files.OfUser("b")
	var inner files.File
	w.blobs.put = func() {
		w.blobs.put = nil
		inner = w.save(b, "f", "the same")
	}
	outer, err := w.Save(w.Context(), a, files.NewFile{Name: "f"}, reader("the same"))
	w.check(err)
	w.hasBlobs(2)
	w.clean(1)
	w.has(a, outer, "the same")
	w.has(b, inner, "the same")
}

// A round is swept in as many calls as it takes, and what came meanwhile is kept.
func testRounds(w *world) {
	id := w.session()
	for n := range 30 {
		w.save(files.OfSession(id), fmt.Sprint(n), fmt.Sprint(n))
	}
	kept := w.save(files.OfUser("jane"), "f", "17")
	_, err := w.store.Sessions().Delete(w.Context(), id)
	w.check(err)
	calls := 0
	for round := range 2 {
		for more := true; more; calls++ {
			swept, err := w.Sweep(w.Context(), 7)
			w.check(err)
			more = swept.More
		}
		w.all.Elapse(time.Duration(2-round) * time.Hour)
	}
	if calls < 20 {
		w.Errorf("%d calls", calls)
	}
	w.clean(1)
	w.has(files.OfUser("jane"), kept, "17")
	if _, err := w.Sweep(w.Context(), -1); !errors.Is(err, repo.ErrInvalid) {
		w.Error(err)
	}
}

// A blob that cannot be deleted keeps no other one, and is tried again.
func testFailedDelete(w *world) {
	owner := files.OfUser("jane")
	for n := range 5 {
		w.save(owner, "f", fmt.Sprint(n))
	}
	_, err := w.Delete(w.Context(), owner, "f")
	w.check(err)
	w.sweep()
	w.all.Elapse(2 * time.Hour)
	broken, first := errors.New("broken"), ""
	w.blobs.fail = func(key string) error {
		if first == "" && slices.Contains(w.blobs.keys(), key) || first == key {
			first = key
			return broken
		}
		return nil
	}
	if _, err := w.Sweep(w.Context(), 1000); !errors.Is(err, broken) {
		w.Error(err)
	}
	w.hasBlobs(1)
	w.blobs.fail = nil
	w.clean(0)
}

// Bytes that are freed while a save has found them are kept again.
func testFreed(w *world) {
	owner := files.OfUser("jane")
	w.save(owner, "f", "the same")
	_, err := w.Delete(w.Context(), owner, "f")
	w.check(err)
	w.sweep()
	w.all.Elapse(2 * time.Hour)
	text := &afterFirst{Reader: strings.NewReader("the same"), do: func() { w.sweep() }}
	file, err := w.Save(w.Context(), owner, files.NewFile{Name: "f"}, text)
	w.check(err)
	w.has(owner, file, "the same")
	w.clean(1)
	w.has(owner, file, "the same")
}

// afterFirst does something when it was read to its end once.
type afterFirst struct {
	*strings.Reader

	do func()
}

func (a *afterFirst) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	if err != nil && a.do != nil {
		a.do()
		a.do = nil
	}
	return n, err
}

// Savers, those who delete and fork, and sweepers without a grace to wait for, at once: what is there can be read.
func testSweepers(w *world) {
	owner, texts := files.OfSession(w.session()), []string{"a", "b", "c"}
	ctx, stop := context.WithCancel(w.Context())
	var all, sweepers sync.WaitGroup
	for range 2 {
		sweepers.Go(func() {
			for ctx.Err() == nil {
				w.all.Elapse(61 * time.Minute)
				if _, err := w.Sweep(w.Context(), 1000); err != nil {
					w.Error(err)
				}
			}
		})
	}
	for n := range 4 {
		all.Go(func() {
			for m := range 10 {
				text := texts[(n+m)%len(texts)]
				file, err := w.Save(w.Context(), owner, files.NewFile{Name: fmt.Sprint(n)}, strings.NewReader(text))
				if errors.Is(err, repo.ErrConflict) { // it was given up
					continue
				}
				if err != nil {
					w.Error(err)
					continue
				}
				w.has(owner, file, text)
				if m%3 == 2 {
					if _, err := w.Delete(w.Context(), owner, fmt.Sprint(n)); err != nil {
						w.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	stop()
	sweepers.Wait()
	w.clean(w.count(owner))
}

// count counts the distinct bytes of an owner, all of which can be read.
func (w *world) count(owner files.Owner) int {
	w.Helper()
	distinct := map[string]bool{}
	names, err := w.List(w.Context(), owner, repo.Page{})
	w.check(err)
	for _, last := range names.Items {
		found, err := w.Versions(w.Context(), owner, last.Name, repo.Page{})
		w.check(err)
		for _, file := range found.Items {
			r, err := w.Open(w.Context(), owner, file.Name, file.Version)
			if err != nil {
				w.Error(err)
				continue
			}
			if text := read(r); int64(len(text)) != file.Size {
				w.Errorf("%s %d has %q", file.Name, file.Version, text)
			}
			distinct[file.SHA256] = true
		}
	}
	return len(distinct)
}

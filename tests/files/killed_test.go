package files

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/files"
	"github.com/seed-df90f812/agentstore/internal/pages"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// stop runs the script in a namespace for each step, where it stops at that step. When all have, the process is killed.
func (t task) stop(ctx context.Context, store *agentstore.Store, blobs files.Blobs) error {
	return atOnce(t.Steps, func(n int) error {
		namespace := fmt.Sprint("step", t.First+n)
		at := &stopper{left: t.First + n}
		f, err := files.New(stopped{store.In(namespace), at}, namespace, stoppedBlobs{blobs, at}, files.Options{})
		if err == nil {
			err = script(ctx, store.In(namespace), f)
		}
		if err == nil {
			fmt.Println("end")
			select {}
		}
		return err
	})
}

// script saves, deletes, forks and sweeps.
func script(ctx context.Context, store repo.Store, f *files.Files) error {
	session, err := store.Sessions().Create(ctx, repo.NewSession{Key: "s"})
	if err != nil {
		return err
	}
	owner := files.OfSession(session.ID)
	save := func(name string, r io.Reader) {
		if err == nil {
			_, err = f.Save(ctx, owner, files.NewFile{Name: name}, r)
		}
	}
	save("a", strings.NewReader("one"))
	save("a", strings.NewReader("one"))
	save("b", io.MultiReader(strings.NewReader(strings.Repeat("long", 300_000)))) // read once
	if err == nil {
		_, err = store.Sessions().Append(ctx, session.ID, repo.NewMessage{Role: repo.RoleUser, Content: "hello"})
	}
	if err == nil {
		_, err = f.Fork(ctx, session.ID, 0, repo.NewSession{Key: "fork"})
	}
	save("c", strings.NewReader("two"))
	if err == nil {
		_, err = f.Delete(ctx, owner, "c")
	}
	if err == nil {
		_, err = f.Delete(ctx, owner, "b")
	}
	if err == nil {
		_, err = f.Sweep(ctx, 10_000)
	}
	if err == nil { // has no grace to wait for: what a sweep in an hour would do
		_, err = store.Sessions().Delete(ctx, session.ID)
	}
	if err == nil {
		_, err = f.Sweep(ctx, 10_000)
	}
	return err
}

// stopper stops the caller that takes the last of its steps.
type stopper struct{ left int }

func (s *stopper) step() {
	if s.left--; s.left == 0 {
		fmt.Println("stopped")
		select {}
	}
}

type stopped struct {
	repo.Store
	at *stopper
}

func (s stopped) State() repo.State { return stoppedState{s.Store.State(), s.at} }

func (s stopped) InTx(ctx context.Context, fn func(context.Context, repo.Repositories) error) error {
	s.at.step()
	err := s.Store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		err := fn(ctx, stoppedTx{tx, s.at})
		s.at.step()
		return err
	})
	s.at.step()
	return err
}

type stoppedTx struct {
	repo.Repositories
	at *stopper
}

func (s stoppedTx) State() repo.State { return stoppedState{s.Repositories.State(), s.at} }

type stoppedState struct {
	repo.State
	at *stopper
}

func (s stoppedState) Change(ctx context.Context, changes []repo.StateChange, conditions ...repo.ScopeVersion) ([]repo.ScopeVersion, error) {
	made, err := s.State.Change(ctx, changes, conditions...)
	s.at.step()
	return made, err
}

type stoppedBlobs struct {
	files.Blobs
	at *stopper
}

func (s stoppedBlobs) Put(ctx context.Context, key string, r io.Reader) error {
	s.at.step()
	err := s.Blobs.Put(ctx, key, stoppedReader{r, s.at})
	s.at.step()
	return err
}

type stoppedReader struct {
	io.Reader
	at *stopper
}

func (s stoppedReader) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err == nil && n > 100_000 { // within a long one
		s.at.step()
	}
	return n, err
}

func (s stoppedBlobs) Delete(ctx context.Context, key string) error {
	s.at.step()
	err := s.Blobs.Delete(ctx, key)
	s.at.step()
	return err
}

// Guarantee: Files: kill -9 at any step leaves no reference without its bytes.
func TestKilled(t *testing.T) {
	t.Parallel()
	url := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, url, agentstore.Options{})
	const batch = 16
	total, ended := 0, 0
	for first := 1; ended == 0; first += batch {
		ended += kill(t, task{URL: url, First: first, Steps: batch})
		for n := range batch {
			examine(t, store, fmt.Sprint("step", first+n))
		}
		total += batch
	}
	elapse(t, store, 2*time.Hour)
	for n := range total {
		f := filesOf(t, store, fmt.Sprint("step", n+1))
		for range 3 {
			for more := true; more; {
				swept, err := f.Sweep(t.Context(), 10_000)
				if err != nil {
					t.Fatal(err)
				}
				more = swept.More
			}
			elapse(t, store, 2*time.Hour)
		}
		examine(t, store, fmt.Sprint("step", n+1))
	}
	left := pgtest.Value[int](t, store.Pool(), "SELECT count(*) FROM state_values WHERE key ~ '^(put|free|trash|gone)/'")
	objects := pgtest.Value[int](t, store.Pool(), "SELECT count(*) FROM state_values WHERE key LIKE 'object/%'")
	unused := pgtest.Value[int](t, store.Pool(), `SELECT count(*) FROM (SELECT s.namespace, split_part(v.key, '/', 2) AS sum FROM state_values v
		JOIN state_scopes s ON s.id = v.scope_id WHERE v.key LIKE 'object/%' EXCEPT SELECT s.namespace, split_part(v.key, '/', 2)
		FROM state_values v JOIN state_scopes s ON s.id = v.scope_id WHERE v.key LIKE 'use/%') u`)
	blobs := pgtest.Value[int](t, store.Pool(), "SELECT count(DISTINCT (namespace, blob)) FROM file_chunks")
	t.Logf("%d steps; %d blobs are left, and %d objects", total-ended, blobs, objects)
	if left != 0 || unused != 0 || blobs != objects || total-ended < 50 {
		t.Errorf("%d keys are left, %d unused objects, %d blobs of %d objects", left, unused, blobs, objects)
	}
}

func filesOf(t *testing.T, store *agentstore.Store, namespace string) *files.Files {
	t.Helper()
	f, err := files.New(store, namespace, newBlobs(t, store), files.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// kill runs a process until all of its scripts have stopped, kills it, and returns how many have come to their end.
func kill(t *testing.T, task task) (ended int) {
	t.Helper()
	command := pgtest.Again(t.Context(), taskVariable, task)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	for range task.Steps {
		if !lines.Scan() {
			t.Fatal("the process has ended")
		}
		if lines.Text() == "end" {
			ended++
		}
	}
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait()
	return ended
}

// examine reads all versions of a namespace's sessions, which have no gap.
func examine(t *testing.T, store *agentstore.Store, namespace string) {
	t.Helper()
	f := filesOf(t, store, namespace)
	for _, key := range []string{"s", "fork"} {
		id, err := store.In(namespace).Sessions().Find(t.Context(), repo.SessionKey{Key: key})
		if errors.Is(err, repo.ErrNotFound) {
			continue
		}
		for _, name := range []string{"a", "b", "c"} {
			n := int64(0)
			if err == nil {
				err = pages.Items(func(page repo.Page) (repo.List[files.File], error) {
					return f.Versions(t.Context(), files.OfSession(id), name, page)
				}, func(file files.File) error {
					r, err := f.OpenID(t.Context(), file.Owner, file.ID)
					if err != nil {
						return err
					}
					if n++; file.Version != n {
						return fmt.Errorf("%d is version %d", n, file.Version)
					}
					data, err := io.ReadAll(r)
					if err == nil && int64(len(data)) != file.Size {
						err = fmt.Errorf("%d bytes of %d", len(data), file.Size)
					}
					return err
				})
			}
			if err != nil && !errors.Is(err, repo.ErrNotFound) {
				t.Errorf("%s: %s: %s: %v", namespace, key, name, err)
			}
		}
	}
}

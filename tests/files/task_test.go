package files

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/files"
	"github.com/seed-df90f812/agentstore/files/filespg"
	"github.com/seed-df90f812/agentstore/repo"
)

const taskVariable = "AGENTSTORE_TEST_FILES_TASK"

// task is what a process does.
type task struct {
	URL            string
	Session        repo.ID
	Writers, Each  int  // that save versions of one name at once
	Naive          bool // in the naive way
	Uploads, Bytes int  // at once, and how large each is
	First, Steps   int  // of namespaces whose script stops at a step, until the process is killed
}

func runTask(text string) error {
	var t task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return err
	}
	ctx := context.Background()
	store, err := agentstore.Open(ctx, t.URL, agentstore.Options{MaxConns: max(8, t.Steps+4)})
	if err != nil {
		return err
	}
	blobs, err := filespg.New(store.Pool())
	if err != nil {
		return err
	}
	if t.Steps > 0 {
		return t.stop(ctx, store, blobs)
	}
	f, err := files.New(store, "", blobs, files.Options{})
	if err != nil {
		return err
	}
	if t.Uploads > 0 {
		return t.upload(ctx, f)
	}
	return atOnce(t.Writers, func(n int) error {
		for m := range t.Each {
			data := strings.NewReader(fmt.Sprint(os.Getpid(), n, m))
			save := func() error {
				_, err := f.Save(ctx, files.OfSession(t.Session), files.NewFile{Name: "f"}, data)
				return err
			}
			if t.Naive {
				save = func() error { return naive(ctx, store.State(), t.Session) }
			}
			if err := save(); err != nil {
				return err
			}
		}
		return nil
	})
}

func atOnce(n int, do func(n int) error) error {
	var all sync.WaitGroup
	failed := make([]error, n)
	for i := range n {
		all.Go(func() { failed[i] = do(i) })
	}
	all.Wait()
	return errors.Join(failed...)
}

// naive loads the number, increments it, and saves.
func naive(ctx context.Context, state repo.State, session repo.ID) error {
	scope := repo.Scope{SessionID: session}
	last := 0
	value, err := state.Get(ctx, scope, "naive-last")
	if err == nil {
		last, err = strconv.Atoi(string(value.Value))
	}
	if err != nil && !errors.Is(err, repo.ErrNotFound) {
		return err
	}
	next := strconv.Itoa(last + 1)
	_, err = state.Change(ctx, []repo.StateChange{
		{Scope: scope, Key: "naive/" + next, Value: json.RawMessage(`true`)}, {Scope: scope, Key: "naive-last", Value: json.RawMessage(next)},
	})
	return err
}

// upload uploads at once, and writes how much memory that took at most.
func (t task) upload(ctx context.Context, f *files.Files) error {
	ended := make(chan struct{})
	var watcher sync.WaitGroup
	var most memory
	watcher.Go(func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(5 * time.Millisecond): // pace: others work
				most.look()
			}
		}
	})
	err := atOnce(t.Uploads, func(n int) error {
		_, err := f.Save(ctx, files.OfSession(t.Session), files.NewFile{Name: fmt.Sprint(n)}, io.LimitReader(rand.Reader, int64(t.Bytes)))
		return err
	})
	close(ended)
	watcher.Wait()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(most)
}

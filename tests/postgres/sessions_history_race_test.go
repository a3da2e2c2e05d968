package postgres

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// historyTask is what the writers of one process do to a session, each so many times: they append, replace the last answer, rewind
// and fork. Careful ones say which head they have read.
type historyTask struct {
	DatabaseURL     string
	Session         repo.ID
	Writers, Rounds int
	Careful         bool
}

const historyTaskVariable = "AGENTSTORE_HISTORY_WRITERS"

// moved is what was acknowledged. It has moved the head of the transcript from one message to another, as far as its writer knows.
type moved struct {
	From, To int64
	// Message is the one that was added, and follows From unless Follows is set. Zero: the session was rewound.
	Message repo.ID
	Follows *int64
	// Fork, if set, is a fork, and Has what it must have. The head stays.
	Fork repo.ID
	Has  []repo.ID
}

// runHistoryWriters is the main function of a process of writers.
func runHistoryWriters(text string) error {
	var task historyTask
	if err := json.Unmarshal([]byte(text), &task); err != nil {
		return err
	}
	store, err := agentstore.Open(context.Background(), task.DatabaseURL, agentstore.Options{MaxConns: 4})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		return err
	}
	all, err := task.run(context.Background(), store.Sessions())
	return errors.Join(err, json.NewEncoder(os.Stdout).Encode(all), store.Close())
}

func (task historyTask) run(ctx context.Context, sessions repo.Sessions) ([]moved, error) {
	var mu sync.Mutex
	var all []moved
	var errs []error
	var running sync.WaitGroup
	for range task.Writers {
		running.Go(func() {
			for range task.Rounds {
				what := rand.IntN(8)
				one, err := task.move(ctx, sessions, what)
				for range 20 {
					conflict, is := errors.AsType[*repo.SequenceConflictError](err)
					if !is || conflict.Kind != "head" || !task.Careful {
						break
					}
					time.Sleep(rand.N(50 * time.Millisecond)) // pace: others get through
					one, err = task.move(ctx, sessions, what)
				}
				mu.Lock()
				if err == nil {
					all = append(all, one)
				} else if !errors.Is(err, repo.ErrConflict) {
					errs = append(errs, err)
				}
				mu.Unlock()
			}
		})
	}
	running.Wait()
	return all, errors.Join(errs...)
}

func (task historyTask) move(ctx context.Context, sessions repo.Sessions, what int) (moved, error) {
	if what == 0 {
		added, err := sessions.Append(ctx, task.Session, texts("x")...)
		if err != nil {
			return moved{}, err
		}
		return moved{From: added[0].Follows, To: added[0].Sequence, Message: added[0].ID}, nil
	}
	transcript, err := sessions.LastMessages(ctx, task.Session, 1000)
	if err != nil {
		return moved{}, err
	}
	head := transcript[len(transcript)-1]
	at := rand.IntN(len(transcript))
	if what == 1 {
		fork, err := sessions.Fork(ctx, task.Session, transcript[at].Sequence, repo.NewSession{})
		if err != nil {
			return moved{}, err
		}
		added, err := sessions.Append(ctx, fork.ID, texts("of the fork")...)
		if err != nil {
			return moved{}, err
		}
		return moved{Fork: fork.ID, Has: append(idsOf(transcript[:at+1]), added[0].ID)}, nil
	}
	turn := repo.Turn{SessionID: task.Session, After: &transcript[at].Sequence}
	if what > 3 { // regenerate
		turn.After, turn.Messages = &head.Follows, texts("y")
	}
	if task.Careful {
		turn.Head = &head.Sequence
	}
	added, err := sessions.AppendTurn(ctx, turn)
	if err != nil || len(added.Messages) == 0 {
		return moved{From: head.Sequence, To: *turn.After}, err
	}
	return moved{From: head.Sequence, To: added.Messages[0].Sequence, Message: added.Messages[0].ID, Follows: turn.After}, nil
}

// startHistoryWriters starts a process of writers, which waits until begin is called. end returns what was acknowledged to it.
func startHistoryWriters(t *testing.T, task historyTask) (begin func(), end func() []moved) {
	t.Helper()
	command := pgtest.Again(t.Context(), historyTaskVariable, task)
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	output := bufio.NewReader(stdout)
	if line, err := output.ReadString('\n'); err != nil {
		t.Fatalf("a process printed %q: %v, %v", line, err, command.Wait())
	}
	begin = func() { _, _ = fmt.Fprintln(stdin) } // whether it has got it, its end says
	return begin, func() (all []moved) {
		err := json.NewDecoder(output).Decode(&all)
		if err := errors.Join(err, command.Wait()); err != nil {
			t.Errorf("a process: %v", err)
		}
		return all
	}
}

// raceHistory has 64 writers of this process and 64 of four others move the head of a session, checks what is stored, and returns
// at how many messages the head has arrived more or less often than it has left them: writers had not seen it.
func raceHistory(t *testing.T, databaseURL string, store *agentstore.Store, careful bool) (unseen int) {
	t.Helper()
	task := historyTask{databaseURL, pgtest.NewSession(t, store), 16, pgtest.Choose(50, 5), careful}
	first, err := store.Sessions().Append(t.Context(), task.Session, texts("x")...)
	if err != nil {
		t.Fatal(err)
	}
	acknowledged := []moved{{From: -1, Message: first[0].ID}}
	var begins []func()
	var ends []func() []moved
	for range 4 {
		begin, end := startHistoryWriters(t, task)
		begins, ends = append(begins, begin), append(ends, end)
	}
	for _, begin := range begins {
		begin()
	}
	task.Writers = 64
	own, err := task.run(t.Context(), store.Sessions())
	if err != nil {
		t.Error(err)
	}
	acknowledged = append(acknowledged, own...)
	for _, end := range ends {
		acknowledged = append(acknowledged, end()...)
	}
	snapshot, err := store.Sessions().Read(t.Context(), repo.ReadSessions{IDs: []repo.ID{task.Session}, First: 10_000, Branches: true})
	if err != nil {
		t.Fatal(err)
	}
	all, added, rewound, regenerated, forked := snapshot.Sessions[0].Messages, 0, 0, 0, 0
	for i, m := range all {
		if m.Sequence != int64(i) {
			t.Fatalf("message %d has the sequence %d", i, m.Sequence)
		}
	}
	arrived := map[int64]int{}
	for _, a := range acknowledged {
		if !a.Fork.IsZero() {
			forked++
			messages, err := store.Sessions().LastMessages(t.Context(), a.Fork, 1000)
			if err != nil || !slices.Equal(idsOf(messages), a.Has) {
				t.Errorf("a fork has %d messages, want %d; %v", len(messages), len(a.Has), err)
			}
			continue
		}
		arrived[a.From]--
		arrived[a.To]++
		if a.Message.IsZero() {
			rewound++
			continue
		}
		added++
		follows := a.From
		if a.Follows != nil {
			regenerated++
			follows = *a.Follows
		}
		if got := all[a.To]; got.ID != a.Message || got.Follows != follows {
			t.Errorf("message %d follows %d, want %d", got.Sequence, got.Follows, follows)
		}
	}
	if len(all) != added {
		t.Errorf("%d messages are stored, %d were acknowledged", len(all), added)
	}
	transcript, err := store.Sessions().LastMessages(t.Context(), task.Session, 1000)
	if err != nil {
		t.Fatal(err)
	}
	arrived[-1]++ // where it began
	arrived[transcript[len(transcript)-1].Sequence]--
	for _, n := range arrived {
		if n != 0 {
			unseen++
		}
	}
	t.Logf("%d messages, %d of them in the transcript; regenerated %d times, rewound %d times, %d forks", len(all), len(transcript), regenerated, rewound, forked)
	if regenerated < 20 || rewound < 10 || forked < 10 {
		t.Error("too little was acknowledged: the test would not find an error")
	}
	return unseen
}

// Guarantee: History: Whatever races, each message follows what its turn named.
func TestHistoryRace(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	if unseen := raceHistory(t, databaseURL, store, true); unseen > 0 {
		t.Errorf("writers had not seen the head at %d messages", unseen)
	}
	if raceHistory(t, databaseURL, store, false) == 0 {
		t.Error("the same without Head went well: the test would not find an error")
	}
}

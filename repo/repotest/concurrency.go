package repotest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/repotest/bykey"
)

func concurrencyTests() []test {
	return []test{
		{"AppendToOne", testAppendToOne},
		{"AppendToMany", testAppendToMany},
		{"AppendAt", testConcurrentAppendAt},
		{"CreateOneID", testConcurrentCreate},
		{"CreateConflicting", testConcurrentCreateConflicting},
		{"CreateNew", testConcurrentCreateNew},
		{"CreateWhateverIsThere", testConcurrentCreateAny},
		{"AppendOrCreate", testConcurrentAppendOrCreate},
		{"AppendOrCreateAndDelete", testConcurrentAppendOrCreateAndDelete},
		{"AppendOneID", testConcurrentAppendOneID},
		{"AppendOverlapping", testConcurrentOverlappingBatches},
		{"AppendAndDelete", testAppendAndDelete},
		{"Budget", testConcurrentBudget},
		{"BudgetAndUpdate", testConcurrentBudgetAndUpdate},
		{"UsageOverflow", testUsageOverflow},
		{"Usage", testConcurrentUsage},
		{"UsageID", testConcurrentUsageID},
		{"UsageRollback", testUsageTxRollback},
		{"List", testConcurrentList},
		{"Read", testReadIsOneMoment},
		{"ListByActivity", testConcurrentActivity},
		{"Patch", testConcurrentPatch},
		{"ImportOneDocument", testConcurrentImport},
		{"ExportWhileAppending", testExportWhileAppending},
	}
}

const workers = 32

// together runs a function in count goroutines that begin at the same time.
func together(count int, run func(worker int)) {
	start := make(chan struct{})
	var running sync.WaitGroup
	for worker := range count {
		running.Go(func() {
			<-start
			run(worker)
		})
	}
	close(start)
	running.Wait()
}

// counter counts for several goroutines.
type counter struct {
	mu    sync.Mutex
	count int
}

func (c *counter) add() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
}

func (c *counter) get() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// acknowledged collects the batches that appends returned.
type acknowledged struct {
	mu      sync.Mutex
	batches [][]repo.Message
}

func (a *acknowledged) add(batch []repo.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.batches = append(a.batches, batch)
}

// check checks that the session contains exactly the acknowledged messages, each at
// the sequence that its append returned, and that every batch is contiguous.
func (a *acknowledged) check(t *testing.T, s repo.Sessions, id repo.ID) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	var want []repo.Message
	for _, batch := range a.batches {
		if len(batch) == 0 {
			t.Error("an append returned no message")
			continue
		}
		wantDense(t, batch, batch[0].Sequence)
		want = append(want, batch...)
	}
	slices.SortFunc(want, func(a, b repo.Message) int { return int(a.Sequence - b.Sequence) })
	wantMessages(t, wantCount(t, s, id, len(want)), want)
}

// batchOf returns the batch of a worker's round. Some batches have ids, some do
// not.
func batchOf(worker, round int) []repo.NewMessage {
	batch := make([]repo.NewMessage, 1+(worker+round)%3)
	for i := range batch {
		batch[i] = user(fmt.Sprintf("%d/%d/%d", worker, round, i))
		if worker%2 == 0 {
			batch[i].ID = repo.NewID()
		}
	}
	return batch
}

// Guarantee: Messages: An append never fails because of another writer.
func testAppendToOne(t *testing.T, store repo.Store) {
	s := store.Sessions()
	id := create(t, s)
	var done acknowledged
	together(workers, func(worker int) {
		for round := range 12 {
			given := batchOf(worker, round)
			stored, err := s.Append(t.Context(), id, given...)
			if err != nil {
				t.Errorf("Append: %v", err)
				return
			}
			wantStored(t, id, stored[0].Sequence, given, stored)
			done.add(stored)
		}
	})
	done.check(t, s, id)
}

func testAppendToMany(t *testing.T, store repo.Store) {
	s := store.Sessions()
	ids, done := make([]repo.ID, 10), make([]acknowledged, 10)
	for i := range ids {
		ids[i] = create(t, s)
	}
	together(workers, func(worker int) {
		for round := range 12 {
			i := (worker + round) % len(ids)
			stored, err := s.Append(t.Context(), ids[i], batchOf(worker, round)...)
			if err != nil {
				t.Errorf("Append: %v", err)
				return
			}
			done[i].add(stored)
		}
	})
	for i := range ids {
		done[i].check(t, s, ids[i])
	}
}

// One of several appends at the same sequence wins. The others learn a next
// sequence above the one that they expected.
func testConcurrentAppendAt(t *testing.T, store repo.Store) {
	const sequences, contenders = 15, 8
	s := store.Sessions()
	id := create(t, s)
	var done acknowledged
	for sequence := range int64(sequences) {
		var winners counter
		together(contenders, func(worker int) {
			message := user(fmt.Sprint(worker))
			if worker%2 == 0 {
				message.ID = repo.NewID()
			}
			stored, err := appendAt(t.Context(), s, id, sequence, message)
			if err == nil {
				winners.add()
				wantStored(t, id, sequence, []repo.NewMessage{message}, stored)
				done.add(stored)
				return
			}
			wantSequenceConflict(t, err, repo.SequenceConflictError{Kind: "session", ID: id, Expected: sequence, Next: sequence + 1})
		})
		if winners.get() != 1 {
			t.Fatalf("%d appends at %d succeeded, want 1", winners.get(), sequence)
		}
	}
	// Without a pause: each retries at once with the sequence that it learnt.
	together(contenders, func(int) {
		for expected := int64(sequences); expected < 2*sequences; {
			stored, err := appendAt(t.Context(), s, id, expected, user("x"))
			if err == nil {
				done.add(stored)
				expected++
				continue
			}
			conflict, ok := wantError[*repo.SequenceConflictError](t, err, repo.ErrConflict)
			if !ok {
				return
			}
			if conflict.Expected != expected || conflict.Next <= expected {
				t.Errorf("got %+v, want a next sequence above %d", *conflict, expected)
				return
			}
			expected = conflict.Next
		}
	})
	done.check(t, s, id)
}

// Creating one session many times concurrently creates it once.
// Guarantee: Sessions: Concurrent creations under one key create one session.
func testConcurrentCreate(t *testing.T, store repo.Store) {
	s := store.Sessions()
	for range 5 {
		given := fullSession(store)
		together(workers, func(int) {
			created, err := s.Create(t.Context(), given)
			if err != nil {
				t.Errorf("Create: %v", err)
				return
			}
			stored, err := s.Get(t.Context(), given.ID)
			if err != nil {
				t.Errorf("Get: %v", err)
				return
			}
			created.Existed = false
			wantSession(t, created, stored)
		})
		wantList(t, walk(t, s, repo.SessionFilter{AnyOwner: true, Namespace: given.Namespace}, 10), []repo.Session{get(t, s, given.ID)})
	}
}

// Of two different sessions with one id, one is created and the other conflicts.
func testConcurrentCreateConflicting(t *testing.T, store repo.Store) {
	s := store.Sessions()
	for range 5 {
		id := repo.NewID()
		var winners acknowledgedActors
		together(8, func(worker int) {
			actor := fmt.Sprint(worker)
			_, err := s.Create(t.Context(), repo.NewSession{ID: id, Actor: actor})
			if err == nil {
				winners.add(actor)
				return
			}
			wantSessionConflict(t, err, repo.ExistsError{Kind: "session", ID: id, Field: "actor"})
		})
		if stored := get(t, s, id).Actor; len(winners.actors) != 1 || winners.actors[0] != stored {
			t.Errorf("the creations of %v succeeded, stored is %q", winners.actors, stored)
		}
	}
}

// Of many creations of a session that must be new, one succeeds.
func testConcurrentCreateNew(t *testing.T, store repo.Store) {
	s := store.Sessions()
	for range 5 {
		given := fullSession(store)
		given.Existing = repo.ExistingNone
		var winners counter
		together(workers, func(int) {
			created, err := s.Create(t.Context(), given)
			if err != nil {
				wantSessionConflict(t, err, repo.ExistsError{Kind: "session", ID: given.ID})
				return
			}
			winners.add()
			if created.Existed {
				t.Error("a session that must be new existed")
			}
		})
		if winners.get() != 1 {
			t.Errorf("%d creations succeeded, want 1", winners.get())
		}
	}
}

// Of many creations of different sessions with one key, one creates its session, and
// all return that session.
func testConcurrentCreateAny(t *testing.T, store repo.Store) {
	s := store.Sessions()
	for range 5 {
		key := newKey(store)
		var creators counter
		var actors acknowledgedActors
		together(workers, func(worker int) {
			created, err := s.Create(t.Context(), repo.NewSession{
				Namespace: key.Namespace, Key: key.Key, Actor: fmt.Sprint(worker), Existing: repo.ExistingAny,
			})
			if err != nil {
				t.Errorf("Create: %v", err)
				return
			}
			if !created.Existed {
				creators.add()
			}
			actors.add(created.Actor)
		})
		slices.Sort(actors.actors)
		if creators.get() != 1 || len(slices.Compact(actors.actors)) != 1 {
			t.Errorf("%d creations created, and they got the sessions of %v", creators.get(), actors.actors)
		}
	}
}

// However many append to a session that does not exist, it is created once, and has
// the messages of all.
func testConcurrentAppendOrCreate(t *testing.T, store repo.Store) {
	s := store.Sessions()
	for round := range 5 {
		named, key := keyed(s)
		var done acknowledged
		together(64, func(worker int) {
			given := batchOf(worker, round)
			stored, err := named.AppendOrCreate(t.Context(), repo.NewSession{Actor: fmt.Sprint(worker)}, given...)
			if err != nil {
				t.Errorf("AppendOrCreate: %v", err)
				return
			}
			wantStored(t, stored[0].SessionID, stored[0].Sequence, given, stored)
			done.add(stored)
		})
		done.check(t, s, find(t, s, key))
	}
}

func keyed(s repo.Sessions) (bykey.Session, repo.SessionKey) {
	key := newKey(s)
	return bykey.Of(s, key), key
}

// Concurrent deletions make no AppendOrCreate fail.
func testConcurrentAppendOrCreateAndDelete(t *testing.T, store repo.Store) {
	s := store.Sessions()
	named, key := keyed(s)
	together(9, func(worker int) {
		for round := range 10 {
			if worker == 8 {
				if _, err := named.Delete(t.Context()); err != nil && !errors.Is(err, repo.ErrNotFound) {
					t.Errorf("Delete: %v", err)
				}
				continue
			}
			given := batchOf(worker, round)
			stored, err := named.AppendOrCreate(t.Context(), repo.NewSession{}, given...)
			if err != nil {
				t.Errorf("AppendOrCreate: %v", err)
				return
			}
			wantStored(t, stored[0].SessionID, stored[0].Sequence, given, stored)
		}
	})
	stored, err := named.AppendOrCreate(t.Context(), repo.NewSession{}, user("the last one"))
	wantCount(t, s, find(t, s, key), int(must(t, stored, err)[0].Sequence)+1)
}

type acknowledgedActors struct {
	mu     sync.Mutex
	actors []string
}

func (a *acknowledgedActors) add(actor string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.actors = append(a.actors, actor)
}

// One message appended many times concurrently is stored once, and all callers
// learn its sequence.
func testConcurrentAppendOneID(t *testing.T, store repo.Store) {
	s := store.Sessions()
	id := create(t, s)
	for round := range 5 {
		given := []repo.NewMessage{fullMessage(), fullMessage()}
		together(workers, func(worker int) {
			var stored []repo.Message
			var err error
			if worker%2 == 0 {
				stored, err = s.Append(t.Context(), id, given...)
			} else {
				stored, err = appendAt(t.Context(), s, id, int64(2*round), given...)
			}
			if err != nil {
				t.Errorf("appending one batch many times: %v", err)
				return
			}
			wantStored(t, id, int64(2*round), given, stored)
		})
	}
	wantCount(t, s, id, 10)
}

// Of batches that share a message, one is stored; the others conflict, or repeat it
// if they are equal.
func testConcurrentOverlappingBatches(t *testing.T, store repo.Store) {
	s := store.Sessions()
	id := create(t, s)
	var done acknowledged
	for range 5 {
		shared := fullMessage()
		var winners counter
		together(8, func(worker int) {
			own := user(fmt.Sprint(worker))
			stored, err := s.Append(t.Context(), id, own, shared)
			if err == nil {
				winners.add()
				done.add(stored)
				return
			}
			wantMessageConflict(t, err, id, shared.ID, "batch")
		})
		if winners.get() != 1 {
			t.Errorf("%d batches with one message were stored, want 1", winners.get())
		}
	}
	done.check(t, s, id)
}

// An append that races with a deletion is stored and deleted, or finds no session.
// The deletion counts all acknowledged messages.
func testAppendAndDelete(t *testing.T, store repo.Store) {
	s := store.Sessions()
	for range 10 {
		id := create(t, s)
		var stored counter
		var deleted repo.DeletedSession
		together(9, func(worker int) {
			if worker == 8 {
				for stored.get() == 0 {
					if t.Context().Err() != nil || t.Failed() {
						return
					}
					tick()
				}
				var err error
				if deleted, err = s.Delete(t.Context(), id); err != nil {
					t.Errorf("Delete: %v", err)
				}
				return
			}
			for round := 0; !t.Failed(); round++ { // if Delete has failed, the session never disappears
				message := user("x")
				if (worker+round)%2 == 0 {
					message.ID = repo.NewID()
				}
				_, err := s.Append(t.Context(), id, message)
				if err != nil {
					wantNotFound(t, err, "session", id)
					return
				}
				stored.add()
			}
		})
		if deleted.Messages != int64(stored.get()) {
			t.Errorf("%d messages were deleted, %d stored", deleted.Messages, stored.get())
		}
		_, err := s.MessagesFrom(t.Context(), id, 0, 1)
		wantNotFound(t, err, "session", id)
	}
}

// Concurrent callers together never exceed a budget, and reach it if their costs
// add up to it.
// Guarantee: Usage: Usage never exceeds the budget.
func testConcurrentBudget(t *testing.T, store repo.Store) {
	s := store.Sessions()
	const budget = 100
	id := createAs(t, s, repo.NewSession{Budget: ptr(repo.Cost(budget))}).ID
	var added counter
	together(workers, func(int) {
		for range 6 { // 192 callers, 100 of which fit
			got, err := s.AddUsage(t.Context(), id, repo.NewUsage{InputTokens: 2, Cost: 1})
			if err == nil {
				added.add()
				if got.Cost > budget || got.InputTokens != 2*int64(got.Cost) {
					t.Errorf("adding gave %+v", got)
				}
				continue
			}
			wantBudgetExceeded(t, err, repo.LimitExceededError{Kind: "budget", ID: id, Limit: int64(budget), Current: int64(budget), Requested: 1})
		}
	})
	if got := get(t, s, id).Usage; added.get() != budget || got != (repo.Usage{InputTokens: 2 * budget, Cost: budget}) {
		t.Errorf("%d callers added, the usage is %+v, the budget %d", added.get(), got, budget)
	}
}

// A budget that is lowered meanwhile does not end below the cost either.
func testConcurrentBudgetAndUpdate(t *testing.T, store repo.Store) {
	s := store.Sessions()
	for range 10 {
		id := createAs(t, s, repo.NewSession{Budget: ptr(repo.Cost(100))}).ID
		together(8, func(worker int) {
			var err error
			if worker%2 == 0 {
				_, err = s.AddUsage(t.Context(), id, repo.NewUsage{Cost: 10})
			} else {
				_, err = s.Update(t.Context(), id, repo.SessionUpdate{Budget: ptr(repo.Cost(10 * worker))})
			}
			if err != nil {
				_, _ = wantError[*repo.LimitExceededError](t, err, repo.ErrLimit)
			}
		})
		if got := get(t, s, id); got.Usage.Cost > *got.Budget {
			t.Errorf("the cost %s is above the budget %s", got.Usage.Cost, got.Budget)
		}
	}
}

// No addition is lost, whatever else happens to the session.
func testConcurrentUsage(t *testing.T, store repo.Store) {
	const rounds = 6
	s := store.Sessions()
	id := create(t, s)
	together(workers, func(worker int) {
		for range rounds {
			var err error
			switch worker % 4 {
			case 0:
				_, err = s.Append(t.Context(), id, user("x"))
			case 1:
				_, err = s.Update(t.Context(), id, repo.SessionUpdate{Actor: ptr("a")})
			default:
				_, err = s.AddUsage(t.Context(), id, repo.NewUsage{InputTokens: 1, OutputTokens: 2, Cost: 3})
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	const adds = workers / 2 * rounds
	if got, want := get(t, s, id).Usage, (repo.Usage{InputTokens: adds, OutputTokens: 2 * adds, Cost: 3 * adds}); got != want {
		t.Errorf("the usage is %+v, want %+v", got, want)
	}
	wantCount(t, s, id, workers/4*rounds)
}

// A list contains every session that existed throughout exactly once, whatever is
// created or deleted while it is read.
func testConcurrentList(t *testing.T, store repo.Store) {
	s := store.Sessions()
	namespace := spaceOf(store)
	var steady []repo.Session
	var doomed []repo.ID
	for range 30 {
		steady = append(steady, createAs(t, s, repo.NewSession{Namespace: namespace, Actor: "steady"}))
		doomed = append(doomed, createAs(t, s, repo.NewSession{Namespace: namespace, Actor: "doomed"}).ID)
	}
	slices.SortFunc(steady, newestFirst)
	together(3, func(worker int) {
		switch worker {
		case 0:
			for range 60 {
				if _, err := s.Create(t.Context(), repo.NewSession{Namespace: namespace, Actor: "new"}); err != nil {
					t.Errorf("Create: %v", err)
				}
			}
		case 1:
			for _, id := range doomed {
				if _, err := s.Delete(t.Context(), id); err != nil {
					t.Errorf("Delete: %v", err)
				}
			}
		case 2:
			for range 3 {
				checkWalk(t, s, namespace, steady)
			}
		}
	})
	checkWalk(t, s, namespace, steady)
}

// checkWalk reads a list page by page. It runs in a goroutine of its own, which
// must not call t.FailNow.
func checkWalk(t *testing.T, s repo.Sessions, namespace string, steady []repo.Session) {
	t.Helper()
	seen := map[repo.ID]bool{}
	var got []repo.Session
	for page := (repo.Page{Limit: 4}); ; {
		list, err := s.List(t.Context(), repo.SessionFilter{AnyOwner: true, Namespace: namespace}, page)
		if err != nil {
			t.Errorf("List: %v", err)
			return
		}
		for _, session := range list.Items {
			if seen[session.ID] {
				t.Errorf("the %s session %s is in the list twice", session.Actor, session.ID)
			}
			seen[session.ID] = true
			if session.Actor == "steady" {
				got = append(got, session)
			}
		}
		if list.Next == "" {
			break
		}
		page.After = list.Next
	}
	wantList(t, got, steady)
}

// One document imported many times concurrently is imported once.
func testConcurrentImport(t *testing.T, store repo.Store) {
	s := store.Sessions()
	id := create(t, s)
	appendTo(t, s, id, users(50)...)
	document := export(t, s, id)
	remove(t, s, id)
	var imported counter
	together(8, func(int) {
		_, err := s.Import(t.Context(), bytes.NewReader(document), true)
		if err == nil {
			imported.add()
			return
		}
		wantImportError(t, err)
		wantSessionConflict(t, err, repo.ExistsError{Kind: "session", ID: id})
	})
	if imported.get() != 1 {
		t.Errorf("%d imports succeeded, want 1", imported.get())
	}
	wantCount(t, s, id, 50)
}

// An export contains the messages that were there when it began, whatever is
// appended or deleted meanwhile, or reports that the session is gone.
func testExportWhileAppending(t *testing.T, store repo.Store) {
	s := store.Sessions()
	id := create(t, s)
	all := appendTo(t, s, id, users(500)...)
	documents := make([]bytes.Buffer, 4)
	together(8, func(worker int) {
		if worker >= len(documents) {
			for range 20 {
				if _, err := s.Append(t.Context(), id, user("x")); err != nil {
					t.Errorf("Append: %v", err)
				}
			}
			return
		}
		if err := s.Export(t.Context(), id, &documents[worker]); err != nil {
			t.Errorf("Export: %v", err)
		}
	})
	all = append(all, readAll(t, s, id)[len(all):]...)
	for i := range documents {
		remove(t, s, id)
		imported := importFrom(t, s, &documents[i])
		if imported.MessageCount < 500 {
			t.Errorf("the document has %d messages, 500 were there before it", imported.MessageCount)
		}
		wantMessages(t, wantCount(t, s, id, int(imported.MessageCount)), all[:imported.MessageCount])
	}

	var partial bytes.Buffer
	var failure error
	together(2, func(worker int) {
		if worker == 0 {
			failure = s.Export(t.Context(), id, &partial)
			return
		}
		if _, err := s.Delete(t.Context(), id); err != nil {
			t.Errorf("Delete: %v", err)
		}
	})
	if failure != nil {
		wantNotFound(t, failure, "session", id)
		_, err := s.Import(t.Context(), &partial, true)
		wantImportError(t, err)
	} else if imported := importFrom(t, s, &partial); imported.MessageCount == 0 {
		t.Error("the document of a session that was deleted meanwhile is empty")
	}
}

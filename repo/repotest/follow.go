package repotest

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/repotest/bykey"
)

func followTests() []test {
	return []test{
		on("From", testFollowFrom),
		on("Again", testFollowAgain),
		on("Beyond", testFollowBeyond),
		on("Long", testFollowLong),
		on("Refused", testFollowRefused),
		on("Deleted", testFollowDeleted),
		on("Context", testFollowContext),
		on("Slow", testFollowSlow),
		on("Nested", testFollowNested),
		on("Branches", testFollowBranches),
		on("EveryWay", testFollowEveryWay),
		{"Transaction", testFollowTransaction},
		{"InTransaction", testFollowInTransaction},
		{"Close", testFollowClose},
		{"CloseInBody", testFollowCloseInBody},
		{"Race", testFollowRace},
		{"DeleteRace", testFollowDeleteRace},
	}
}

// following is a goroutine that follows a session.
type following struct {
	t        *testing.T
	messages chan repo.Message
	ended    chan error
	stop     context.CancelFunc
	late     <-chan struct{} // closed at the end of the test's time
}

func follow(t *testing.T, s repo.Sessions, id repo.ID, from int64) *following {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	f := &following{t, make(chan repo.Message, 10_000), make(chan error, 1), stop, await.Context(t).Done()}
	t.Cleanup(stop)
	go func() {
		var end error
		for message, err := range s.Follow(ctx, id, from) {
			if end != nil {
				t.Error("Follow went on after its error")
			}
			if end = err; err != nil {
				if !reflect.DeepEqual(message, repo.Message{}) {
					t.Errorf("the error came with the message %d", message.Sequence)
				}
				continue
			}
			f.messages <- message
		}
		f.ended <- end
	}()
	return f
}

// wants checks which messages come next.
func (f *following) wants(messages ...repo.Message) {
	f.t.Helper()
	for _, want := range messages {
		select {
		case got := <-f.messages:
			wantMessage(f.t, got, want)
		case err := <-f.ended:
			f.t.Fatalf("Follow ended with %v, want message %d", err, want.Sequence)
		case <-f.late:
			f.t.Fatalf("message %d did not come", want.Sequence)
		}
	}
}

// end returns the error that ends it, before which no message comes.
func (f *following) end() error {
	f.t.Helper()
	err := await.Value(f.t, "Follow ends", f.ended)
	select {
	case got := <-f.messages:
		f.t.Errorf("message %d came before the end", got.Sequence)
	default:
	}
	return err
}

func wantDeleted(t *testing.T, err error, id repo.ID) {
	t.Helper()
	if got, ok := wantError[*repo.NotFoundError](t, err, repo.ErrGone); ok {
		wantEqual(t, got, repo.NotFoundError{Kind: "session", ID: id, Gone: true})
	}
}

func testFollowFrom(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	all := appendTo(t, s, id, fullMessage(), user("x"), fullMessage())
	whole, rest, none := follow(t, s, id, 0), follow(t, s, id, 2), follow(t, s, id, 3)
	whole.wants(all...)
	rest.wants(all[2:]...)
	for range 3 {
		more := appendTo(t, s, id, fullMessage(), user("y"))
		for _, f := range []*following{whole, rest, none} {
			f.wants(more...)
		}
	}
}

// Ranging over it a second time follows from the same sequence again.
func testFollowAgain(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	all := appendTo(t, s, id, users(5)...)
	followed := s.Follow(t.Context(), id, 1)
	for range 2 {
		wantMessages(t, take(t, followed, 4), all[1:])
	}
}

// take reads the first messages, and stops.
func take(t *testing.T, messages iter.Seq2[repo.Message, error], count int) (taken []repo.Message) {
	t.Helper()
	for message, err := range messages {
		if err != nil {
			t.Fatalf("after %d messages: %v", len(taken), err)
		}
		if taken = append(taken, message); len(taken) == count {
			break
		}
	}
	return taken
}

// It waits for a sequence that does not exist yet, and leaves out those before.
func testFollowBeyond(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	f, never := follow(t, s, id, 3), follow(t, s, id, math.MaxInt64)
	appendTo(t, s, id, users(2)...)
	appendTo(t, s, id, user("the third"))
	f.wants(appendTo(t, s, id, user("the fourth"), user("the fifth"))...)
	never.stop()
	if err := never.end(); !errors.Is(err, context.Canceled) {
		t.Errorf("Follow ended with %v", err)
	}
}

// It catches up with a long session, whose messages have very different lengths.
func testFollowLong(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	given := users(3000)
	for i := 59; i < len(given); i += 600 {
		given[i].Content = string(bytes.Repeat([]byte("x"), 1<<20+1))
	}
	all := appendTo(t, s, id, given...)
	together(3, func(int) {
		if got := take(t, s.Follow(t.Context(), id, 0), len(all)); len(got) == len(all) {
			wantMessages(t, got, all)
		}
	})
}

func testFollowRefused(t *testing.T, s repo.Sessions) {
	wantInvalid(t, wantOneError(t, s.Follow(t.Context(), create(t, s), -1)), "from")
	missing := repo.NewID()
	for _, from := range []int64{0, 1, math.MaxInt64} {
		wantNotFound(t, wantOneError(t, s.Follow(t.Context(), missing, from)), "session", missing)
	}
	key := repo.SessionKey{Namespace: spaceOf(s), Key: "x"}
	err := wantOneError(t, bykey.Of(s, key).Follow(t.Context(), 0))
	wantNoKey(t, err, key)
}

func testFollowDeleted(t *testing.T, s repo.Sessions) {
	id, empty := create(t, s), create(t, s)
	all := appendTo(t, s, id, users(3)...)
	waiting, beyond, ofEmpty := follow(t, s, id, 0), follow(t, s, id, 10), follow(t, s, empty, 0)
	waiting.wants(all...)
	awaitFollowers(t, s, id, empty)
	remove(t, s, id)
	remove(t, s, empty)
	wantDeleted(t, waiting.end(), id)
	wantDeletedOrMissing(t, beyond.end(), id)
	wantDeletedOrMissing(t, ofEmpty.end(), empty)
}

// awaitFollowers gives followers that have read nothing time to begin.
func awaitFollowers(t *testing.T, s repo.Sessions, ids ...repo.ID) {
	t.Helper()
	for _, id := range ids {
		get(t, s, id)
	}
	time.Sleep(20 * time.Millisecond) // pace: they usually wait by then
}

// wantDeletedOrMissing is for a follower that may have begun only afterwards.
func wantDeletedOrMissing(t *testing.T, err error, id repo.ID) {
	t.Helper()
	if errors.Is(err, repo.ErrNotFound) && !errors.Is(err, repo.ErrGone) {
		wantNotFound(t, err, "session", id)
		return
	}
	wantDeleted(t, err, id)
}

func testFollowContext(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	all := appendTo(t, s, id, users(3)...)
	waiting := follow(t, s, id, 0)
	waiting.wants(all...)
	waiting.stop()
	if err := waiting.end(); !errors.Is(err, context.Canceled) {
		t.Errorf("its context ended while it waited, and Follow with %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond) // short: no message comes, so it ends however late
	defer cancel()
	for err := range errorsOf(s.Follow(ctx, id, 3)) {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Follow ended with %v, want the context's error", err)
		}
	}
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	count := 0
	for _, err := range s.Follow(ctx, id, 0) {
		switch {
		case err == nil:
			count++
			cancel()
		case count != 1 || !errors.Is(err, context.Canceled):
			t.Errorf("its context ended with message 1, and Follow after %d with %v", count, err)
		}
	}
}

// errorsOf yields what is not a message.
func errorsOf(messages iter.Seq2[repo.Message, error]) iter.Seq[error] {
	return func(yield func(error) bool) {
		for _, err := range messages {
			if err != nil && !yield(err) {
				return
			}
		}
	}
}

// A slow follower delays neither writers nor other followers, and gets everything in the
// end.
func testFollowSlow(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	appendTo(t, s, id, user("first"))
	entered, release := make(chan struct{}), make(chan struct{})
	var got []repo.Message
	done := make(chan struct{})
	go func() {
		defer close(done)
		for message, err := range s.Follow(t.Context(), id, 0) {
			if err != nil {
				t.Errorf("the slow one: %v", err)
				return
			}
			if got = append(got, message); len(got) == 1 {
				close(entered)
				<-release
			}
			if len(got) == 801 {
				return
			}
		}
	}()
	<-entered
	quick := follow(t, s, id, 1)
	for range 8 {
		quick.wants(appendTo(t, s, id, users(100)...)...)
	}
	close(release)
	await.Value(t, "the slow one gets everything", done)
	wantMessages(t, got, readAll(t, s, id))
}

// The loop's body may use the store, and follow further sessions.
// Guarantee: History: Followers get each message of all branches once, with what it follows.
func testFollowBranches(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	all := appendTo(t, s, id, users(4)...)
	whole := follow(t, s, id, 0)
	whole.wants(all...)
	later := turnOn(t, s, id, repo.Turn{After: ptr(int64(1)), Messages: users(2)}) // 4 5
	whole.wants(later...)
	turnOn(t, s, id, repo.Turn{After: ptr(int64(2))}) // nothing to yield
	next := appendTo(t, s, id, user("x"))
	if whole.wants(next...); next[0].Follows != 2 {
		t.Errorf("%+v", next)
	}
	// As the fork has them.
	inherited := func(fork repo.ID, messages ...repo.Message) []repo.Message {
		messages = slices.Clone(messages)
		for i := range messages {
			messages[i].SessionID = fork
		}
		return messages
	}
	forked := fork(t, s, id, 5)
	path := inherited(forked, all[0], all[1], later[0], later[1])
	first, rest, beyond := follow(t, s, forked, 0), follow(t, s, forked, 2), follow(t, s, forked, 6)
	first.wants(path...)
	rest.wants(path[2:]...)
	own := appendTo(t, s, forked, users(2)...)
	first.wants(own...)
	rest.wants(own...)
	beyond.wants(own...)
	again := follow(t, s, forked, 1)
	again.wants(append(path[1:], own...)...)
	rewound := turnOn(t, s, forked, repo.Turn{After: ptr(int64(1)), Messages: users(1)})
	again.wants(rewound...)
	first.wants(rewound...)
	remove(t, s, forked)
	wantDeleted(t, first.end(), forked)
}

func testFollowNested(t *testing.T, s repo.Sessions) {
	id, copied := create(t, s), create(t, s)
	appendTo(t, s, id, user("0"))
	for message, err := range s.Follow(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if message.Sequence == 5 {
			break
		}
		mirrored := appendTo(t, s, copied, user(message.Content))
		wantMessages(t, take(t, s.Follow(t.Context(), copied, message.Sequence), 1), mirrored)
		appendTo(t, s, id, user("next"))
	}
	wantCount(t, s, copied, 5)
}

// Whatever way messages come into a session, its followers get them.
func testFollowEveryWay(t *testing.T, s repo.Sessions) {
	id := repo.NewID()
	document := func() []byte {
		createAs(t, s, repo.NewSession{ID: id})
		appendTo(t, s, id, users(3)...)
		exported := export(t, s, id)
		remove(t, s, id)
		return exported
	}()
	importFrom(t, s, bytes.NewReader(document))
	f := follow(t, s, id, 0)
	f.wants(readAll(t, s, id)...)
	own := repo.NewMessage{ID: repo.NewID(), Role: repo.RoleUser, Content: "with an id"}
	f.wants(appendTo(t, s, id, own)...)
	appendTo(t, s, id, own) // again
	stored, err := appendAt(t.Context(), s, id, 4, user("at 4"))
	f.wants(must(t, stored, err)...)
	called := user("called")
	called.CallID = "call"
	f.wants(appendTo(t, s, id, called)...)
	turn := repo.Turn{
		ID: randomName(), Messages: users(2),
		State: []repo.StateChange{{Scope: repo.Scope{SessionID: id}, Key: "a", Value: []byte(`1`)}},
	}
	added, err := s.AppendTurn(t.Context(), inSession(id, turn))
	f.wants(must(t, added, err).Messages...)
}

// What a transaction does is seen when it is committed.
func testFollowTransaction(t *testing.T, store repo.Store) {
	s := store.Sessions()
	id, made, doomed := create(t, s), repo.NewID(), create(t, s)
	f, ofDoomed := follow(t, s, id, 0), follow(t, s, doomed, 0)
	f.wants(appendTo(t, s, id, user("before"))...)
	ofDoomed.wants(appendTo(t, s, doomed, user("before"))...)
	var inside []repo.Message
	for _, failure := range []error{errors.New("failure"), nil} {
		err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
			inside = nil
			if _, err := tx.Sessions().Create(ctx, repo.NewSession{ID: made}); err != nil {
				return err
			}
			for range 3 {
				stored, err := tx.Sessions().Append(ctx, id, users(2)...)
				if err != nil {
					return err
				}
				inside = append(inside, stored...)
			}
			if _, err := tx.Sessions().Delete(ctx, doomed); err != nil {
				return err
			}
			select {
			case m := <-f.messages:
				t.Errorf("message %d was seen before the commit", m.Sequence)
			case <-time.After(5 * time.Millisecond): // pace: it would come by then
			}
			return failure
		})
		if !errors.Is(err, failure) {
			t.Fatal(err)
		}
	}
	f.wants(inside...)
	wantDeleted(t, ofDoomed.end(), doomed)
	f.wants(appendTo(t, s, id, user("after"))...)
}

// A transaction cannot wait for others.
func testFollowInTransaction(t *testing.T, store repo.Store) {
	id := create(t, store.Sessions())
	err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		wantInvalid(t, wantOneError(t, tx.Sessions().Follow(ctx, id, 0)), "transaction")
		_, err := tx.Sessions().Append(ctx, id, user("goes on"))
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Closing the store ends all waits.
func testFollowClose(t *testing.T, store repo.Store) {
	s := store.Sessions()
	var all []*following
	for range 3 {
		id := create(t, s)
		f := follow(t, s, id, 0)
		f.wants(appendTo(t, s, id, user("x"))...)
		all = append(all, f, follow(t, s, id, 1))
	}
	closeStore(t, store)
	for _, f := range all {
		if err := f.end(); !errors.Is(err, repo.ErrClosed) {
			t.Errorf("the store was closed, and Follow ended with %v", err)
		}
	}
}

// Close does not wait for a loop's body, which may call it.
func testFollowCloseInBody(t *testing.T, store repo.Store) {
	s := store.Sessions()
	id := create(t, s)
	appendTo(t, s, id, user("x"))
	ended := 0
	for _, err := range s.Follow(t.Context(), id, 0) {
		if err == nil {
			closeStore(t, store)
			continue
		}
		if ended++; !errors.Is(err, repo.ErrClosed) {
			t.Errorf("the store was closed, and Follow ended with %v", err)
		}
	}
	if ended != 1 {
		t.Errorf("Follow ended %d times", ended)
	}
}

// Writers append in all ways, while followers come and go: each resumes where it
// stopped. No follower misses a message, gets one twice, or out of order.
// Guarantee: Following: A follower gets each message once and in order, from every writer.
func testFollowRace(t *testing.T, store repo.Store) {
	const sessions, writers, rounds, followers = 3, 6, 20, 18
	const total = writers * rounds * 5
	s := store.Sessions()
	ctx := await.Context(t)
	var ids []repo.ID
	for range sessions {
		ids = append(ids, create(t, s))
	}
	seen := make([][]repo.Message, followers)
	together(writers+followers, func(worker int) {
		if worker < writers {
			for range rounds {
				for _, id := range ids {
					writeFive(t, store, id)
				}
			}
			return
		}
		worker -= writers
		id := ids[worker%sessions]
		var got []repo.Message
		for failed := false; len(got) < total && !failed; {
			until := min(len(got)+1+rand.N(100), total)
			for message, err := range s.Follow(ctx, id, int64(len(got))) {
				if err != nil {
					t.Errorf("follower %d, after %d messages of %d: %v", worker, len(got), total, err)
					failed = true
					break
				}
				if got = append(got, message); len(got) == until {
					break
				}
			}
		}
		seen[worker] = got
	})
	for worker, got := range seen {
		all := readAll(t, s, ids[worker%sessions])
		if len(all) != total {
			t.Fatalf("%d messages were stored, want %d", len(all), total)
		}
		missed, twice, disordered := differences(got, all)
		if missed+twice+disordered > 0 {
			t.Errorf("follower %d: missed %d, twice %d, out of order %d", worker, missed, twice, disordered)
			continue
		}
		wantMessages(t, got, all)
	}
}

// writeFive appends five messages, in several ways.
func writeFive(t *testing.T, store repo.Store, id repo.ID) {
	t.Helper()
	s := store.Sessions()
	appendTo(t, s, id, user("one"))
	appendTo(t, s, id, user("two"), fullMessage())
	if _, err := s.AppendTurn(t.Context(), repo.Turn{
		SessionID: id,
		ID:        randomName(), Messages: users(1),
		State: []repo.StateChange{{Scope: repo.Scope{SessionID: id}, Key: "turns", Op: repo.StateIncrement, By: 1}},
	}); err != nil {
		t.Error(err)
	}
	if err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		_, err := tx.Sessions().Append(ctx, id, user("in a transaction"))
		return err
	}); err != nil {
		t.Error(err)
	}
}

// differences counts what a follower did wrong.
func differences(got, all []repo.Message) (missed, twice, disordered int) {
	seen := map[repo.ID]int{}
	for i, message := range got {
		seen[message.ID]++
		if i > 0 && message.Sequence < got[i-1].Sequence {
			disordered++
		}
	}
	for _, message := range all {
		switch count := seen[message.ID]; {
		case count == 0:
			missed++
		case count > 1:
			twice += count - 1
		}
	}
	return missed, twice, disordered
}

// Sessions with one key are made, written to and deleted. What a follower gets between
// its begin and its end is of one of them, without gaps.
func testFollowDeleteRace(t *testing.T, store repo.Store) {
	const rounds, followers = 25, 6
	s := store.Sessions()
	ctx := await.Context(t)
	key := newKey(store)
	session := repo.NewSession{Namespace: key.Namespace, Key: key.Key}
	createAs(t, s, session)
	written := make(chan struct{})
	var deletions counter
	together(followers+1, func(worker int) {
		if worker == followers {
			defer close(written)
			for round := 0; round < rounds || deletions.get() == 0 && ctx.Err() == nil && !t.Failed(); round++ {
				id := find(t, s, key)
				for range 4 {
					appendTo(t, s, id, repo.NewMessage{Role: repo.RoleUser, Content: "x", Kind: strconv.Itoa(round)})
				}
				remove(t, s, id)
				createAs(t, s, session)
			}
			remove(t, s, find(t, s, key))
			return
		}
		for {
			select {
			case <-written:
				return
			default:
			}
			next, kind := int64(0), ""
			for message, err := range bykey.Of(s, key).Follow(ctx, 0) {
				switch {
				case errors.Is(err, repo.ErrNotFound):
					deletions.add()
				case err != nil:
					t.Errorf("Follow ended with %v", err)
					return
				case message.Sequence != next || next > 0 && message.Kind != kind:
					t.Errorf("after message %d of session %s came %d of %s", next-1, kind, message.Sequence, message.Kind)
				}
				next, kind = next+1, message.Kind
			}
		}
	})
	if deletions.get() == 0 {
		t.Error("no follower saw a deletion")
	}
}

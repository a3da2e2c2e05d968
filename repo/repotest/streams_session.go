package repotest

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
)

// streamOf opens a stream of a session.
func streamOf(t *testing.T, r repo.Repositories, sessionID repo.ID) repo.Stream {
	t.Helper()
	asked := newStream()
	asked.Session = sessionID
	return openStream(t, r, asked)
}

// listStreams returns the streams of a session, page by page.
func listStreams(t *testing.T, r repo.Repositories, sessionID repo.ID, limit int) (all []repo.Stream) {
	t.Helper()
	for page := (repo.Page{Limit: limit}); ; {
		list, err := r.Streams().List(t.Context(), sessionID, page)
		if must(t, list, err); len(list.Items) > limit {
			t.Fatalf("a page has %d streams, the limit is %d", len(list.Items), limit)
		}
		all = append(all, list.Items...)
		if page.After = list.Next; page.After == "" {
			return all
		}
	}
}

func wantListed(t *testing.T, r repo.Repositories, sessionID repo.ID, want ...repo.Stream) {
	t.Helper()
	for _, limit := range []int{1, 2, repo.MaxPageSize} {
		got := listStreams(t, r, sessionID, limit)
		for i := range min(len(got), len(want)) {
			wantStream(t, got[i], want[i])
		}
		if len(got) != len(want) {
			t.Errorf("%d streams are listed, want %d", len(got), len(want))
		}
	}
}

// A stream keeps the session with which it began.
func testStreamsSession(t *testing.T, r repo.Repositories) {
	ctx, sessionID, other, asked := t.Context(), create(t, r.Sessions()), create(t, r.Sessions()), newStream()
	asked.Session = repo.NewID()
	_, err := r.Streams().Open(ctx, asked)
	wantNotFound(t, err, "session", asked.Session)
	_, err = r.Streams().Get(ctx, asked.Key)
	wantNoStream(t, err, asked.Key)

	asked.Session = sessionID
	stream := openStream(t, r, asked)
	addParts(t, r, &stream, []byte("x"))
	wantSame(t, "session", stream.Session, sessionID)
	wantSame(t, "stored stream", getStream(t, r, asked.Key), stream)
	refused := func(asked repo.NewStream, stream repo.Stream) {
		t.Helper()
		for _, asked.Restart = range []bool{false, true} { // nor tells its readers that its writer begins again
			_, err := r.Streams().Open(ctx, asked)
			if got, ok := wantError[*repo.RefusedError](t, err, repo.ErrConflict); ok {
				wantEqual(t, got, repo.RefusedError{Kind: "stream", Name: asked.Key, ID: stream.ID, Reason: "is of another session"})
			}
			wantSame(t, "stored stream", getStream(t, r, asked.Key), stream)
		}
	}
	asked.Session = other
	refused(asked, stream)
	for _, same := range []repo.ID{{}, sessionID} {
		asked.Session = same
		again := openStream(t, r, asked)
		if again.ID != stream.ID || again.Session != sessionID || again.Fence <= stream.Fence {
			t.Errorf("opened %+v after %+v", again, stream)
		}
		stream = again
	}
	none := newStream()
	unbound := openStream(t, r, none)
	addParts(t, r, &unbound, []byte("x"))
	none.Session = sessionID
	refused(none, unbound)

	// The next one of the key may be another session's.
	endStream(t, r, stream, repo.StreamFinished)
	asked.Session = other
	wantSame(t, "session", openStream(t, r, asked).Session, other)
	wantSame(t, "session", listStreams(t, r, sessionID, 9)[0].ID, stream.ID)
}

func testStreamsList(t *testing.T, r repo.Repositories) {
	sessionID := create(t, r.Sessions())
	wantListed(t, r, sessionID)
	wantListed(t, r, repo.NewID())
	openStream(t, r, newStream()) // of none
	wantListed(t, r, repo.ID{})
	streamOf(t, r, create(t, r.Sessions()))
	var open, finished []repo.Stream
	for i := range 6 {
		stream := streamOf(t, r, sessionID)
		addParts(t, r, &stream, someParts(i+1)...)
		if i%2 == 0 {
			open = append(open, stream)
			continue
		}
		endStream(t, r, stream, repo.StreamFinished)
		stream.Status = repo.StreamFinished
		finished = append(finished, stream)
	}
	slices.Reverse(open)
	slices.Reverse(finished)
	wantListed(t, r, sessionID, append(slices.Clone(open), finished...)...)
	endStream(t, r, open[1], repo.StreamFailed)
	got := listStreams(t, r, sessionID, 2)
	if len(got) != 6 || got[0].ID != open[0].ID || got[1].ID != open[2].ID || got[1].Status != repo.StreamOpen {
		t.Errorf("listed %+v", got)
	}

	list, err := r.Streams().List(t.Context(), sessionID, repo.Page{Limit: 1})
	must(t, list, err)
	for field, page := range map[string]repo.Page{
		"limit": {Limit: repo.MaxPageSize + 1}, "page.after": {After: "x"},
	} {
		wantInvalid(t, second(r.Streams().List(t.Context(), sessionID, page)), field)
	}
	wantInvalid(t, second(r.Streams().List(t.Context(), repo.NewID(), repo.Page{After: list.Next})), "page.after")
}

// All streams of a key go, whether they have ended or not, and no other.
func testStreamsDelete(t *testing.T, r repo.Repositories) {
	ctx, sessionID, asked := t.Context(), create(t, r.Sessions()), newStream()
	wantNoStream(t, r.Streams().Delete(ctx, asked.Key), asked.Key)
	wantInvalid(t, r.Streams().Delete(ctx, ""), "key")
	asked.Session = sessionID
	older := openStream(t, r, asked)
	addParts(t, r, &older, someParts(2)...)
	endStream(t, r, older, repo.StreamFailed)
	newer, kept := openStream(t, r, asked), streamOf(t, r, sessionID)
	addParts(t, r, &newer, someParts(2)...)
	if err := r.Streams().Delete(ctx, asked.Key); err != nil {
		t.Fatal(err)
	}
	_, err := r.Streams().Get(ctx, asked.Key)
	wantStreamMissing(t, err)
	wantStreamMissing(t, r.Streams().Delete(ctx, asked.Key))
	for _, stream := range []repo.Stream{older, newer} {
		_, err := r.Streams().Append(ctx, stream, []byte("x"))
		wantStreamGone(t, err, stream)
		must(t, stream, r.Streams().Finish(ctx, stream))
	}
	wantListed(t, r, sessionID, kept)
	again := openStream(t, r, asked)
	if again.ID == newer.ID || again.Fence <= newer.Fence || again.Next != 0 {
		t.Errorf("opened %+v after %+v, which was deleted", again, newer)
	}
}

// wantStreamMissing: it has expired, and may have been removed meanwhile.
func wantStreamMissing(t *testing.T, err error) {
	t.Helper()
	if missing, ok := errors.AsType[*repo.NotFoundError](err); !ok || missing.Kind != "stream" {
		t.Errorf("got %v", err)
	}
}

// Streams go with their session.
func testStreamsDeletedSession(t *testing.T, r repo.Repositories) {
	ctx, sessionID := t.Context(), create(t, r.Sessions())
	open, ended, kept := streamOf(t, r, sessionID), streamOf(t, r, sessionID), openStream(t, r, newStream())
	addParts(t, r, &open, someParts(3)...)
	addParts(t, r, &ended, someParts(3)...)
	endStream(t, r, ended, repo.StreamFinished)
	if _, err := r.Sessions().Delete(ctx, sessionID); err != nil {
		t.Fatal(err)
	}
	for _, stream := range []repo.Stream{open, ended} {
		_, err := r.Streams().Get(ctx, stream.Key)
		wantStreamMissing(t, err)
		_, err = r.Streams().Append(ctx, stream, []byte("x"))
		wantStreamGone(t, err, stream)
	}
	wantListed(t, r, sessionID)
	addParts(t, r, &kept, someParts(1)...)
	again := openStream(t, r, repo.NewStream{Key: open.Key, Owner: "other"})
	if again.ID == open.ID || again.Fence <= open.Fence || again.Session != (repo.ID{}) {
		t.Errorf("opened %+v after %+v, whose session was deleted", again, open)
	}
}

// opened follows the streams of a session.
func opened(t *testing.T, r repo.Repositories, sessionID repo.ID) (next func() repo.Stream) {
	t.Helper()
	pull, stop := iter.Pull2(r.Streams().FollowSession(await.Context(t), sessionID))
	t.Cleanup(stop)
	return func() repo.Stream {
		t.Helper()
		stream, err, _ := pull()
		if err != nil {
			t.Fatal(err)
		}
		return stream
	}
}

// Streams that are open are yielded, and those that are opened later, each once, also if they have
// ended by then.
func testStreamsFollowSession(t *testing.T, store repo.Store) {
	sessionID := create(t, store.Sessions())
	first, ended := streamOf(t, store, sessionID), streamOf(t, store, sessionID)
	endStream(t, store, ended, repo.StreamFinished)
	next, later := opened(t, store, sessionID), opened(t, store, sessionID)
	wantStream(t, next(), first)
	again := openStream(t, store, repo.NewStream{Key: first.Key, Owner: "other"})
	streamOf(t, store, create(t, store.Sessions()))
	second := streamOf(t, store, sessionID)
	wantStream(t, next(), second)
	endStream(t, store, again, repo.StreamFinished)
	time.AfterFunc(10*time.Millisecond, func() { streamOf(t, store, sessionID) }) // pace: next may be waiting by then
	third := next()
	wantSame(t, "session", third.Session, sessionID)
	if third.ID == first.ID || third.ID == second.ID {
		t.Errorf("yielded again: %+v", third)
	}
	if got := later().ID; got == ended.ID { // what is open by now
		t.Errorf("yielded %v, which had ended before", got)
	}

	// A session that does not exist has none, and one that is deleted gets no more.
	missing, deleted := repo.NewID(), create(t, store.Sessions())
	for _, err := range store.Streams().FollowSession(await.Context(t), missing) {
		wantNotFound(t, err, "session", missing)
	}
	pull, stop := iter.Pull2(store.Streams().FollowSession(await.Context(t), deleted))
	defer stop()
	streamOf(t, store, deleted)
	_, err, _ := pull()
	must(t, deleted, err)
	remove(t, store.Sessions(), deleted)
	if _, err, _ := pull(); !errors.Is(err, repo.ErrGone) {
		t.Errorf("of a session that was deleted: %v", err)
	}

	// One in a transaction is there with its commit.
	if err := store.InTx(t.Context(), func(_ context.Context, tx repo.Repositories) error {
		fourth := streamOf(t, tx, sessionID)
		endStream(t, tx, fourth, repo.StreamFailed)
		for _, err := range tx.Streams().FollowSession(t.Context(), sessionID) {
			wantInvalid(t, err, "transaction")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if fourth := next(); fourth.Status != repo.StreamFailed || fourth.Reason != "why" {
		t.Errorf("yielded %+v", fourth)
	}
}

// A writer that begins again tells all readers so, wherever they are, once.
func testStreamsRestart(t *testing.T, store repo.Store) {
	asked := newStream()
	asked.Restart = true
	stream := openStream(t, store, asked)
	if again := openStream(t, store, asked); again.Next != 0 {
		t.Errorf("nothing was there to be given up: %+v", again)
	}
	stream = openStream(t, store, asked)
	parts := someParts(2)
	addParts(t, store, &stream, parts...)
	reader := followParts(t, store, asked.Key, repo.StreamPosition{})
	reader.wants(stream, 0, parts...)
	restarted := openStream(t, store, asked)
	if restarted.ID != stream.ID || restarted.Next != 3 {
		t.Errorf("opened %+v", restarted)
	}
	wantStream(t, getStream(t, store, asked.Key), restarted)
	if again := openStream(t, store, asked); again.Next != 3 {
		t.Errorf("restarted twice: %+v", again)
	}
	asked.Restart = false
	restarted = openStream(t, store, asked)
	if part := await.Value(t, "the restart comes", reader.parts); !part.Restart || part.Sequence != 2 || len(part.Data) > 0 {
		t.Errorf("got %+v, want a restart", part)
	}
	more := someParts(1)
	addParts(t, store, &restarted, more...)
	reader.wants(restarted, 3, more...)
	endStream(t, store, restarted, repo.StreamFinished)
	reader.wantFinished()
	got, err := readParts(store.Streams().Follow(t.Context(), asked.Key, repo.StreamPosition{StreamID: stream.ID, Sequence: 1}), 9)
	wantParts(t, must(t, got, err), stream, 1, [][]byte{parts[1], nil, more[0]})
	for i, part := range got {
		if part.Restart != (i == 1) {
			t.Errorf("part %d: %+v", i, part)
		}
	}
	// In a transaction, also one that is rolled back.
	asked.Restart = true
	failure := errors.New("failure")
	asked.Key = randomName()
	stream = openStream(t, store, asked)
	addParts(t, store, &stream, parts...)
	for _, want := range []error{failure, nil} {
		if err := store.InTx(t.Context(), func(_ context.Context, tx repo.Repositories) error {
			if restarted = openStream(t, tx, asked); restarted.Next != 3 {
				t.Errorf("opened %+v", restarted)
			}
			return want
		}); !errors.Is(err, want) {
			t.Fatal(err)
		}
	}
	wantStream(t, getStream(t, store, asked.Key), restarted)
}

package live

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

// Fake time: the tests with times run in bubbles of synctest.

// silentWriter returns the writer of a stream of a session.
func silentWriter(t *testing.T, ttl time.Duration) (store repo.Store, session repo.ID, w *PartWriter) {
	t.Helper()
	store = memory.New()
	t.Cleanup(func() { _ = store.Close() })
	created, err := store.Sessions().Create(t.Context(), repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := store.Streams().Open(t.Context(), repo.NewStream{Key: "k", Session: created.ID, Owner: "w", TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return store, created.ID, NewPartWriter(t.Context(), store.Streams(), stream)
}

// A model that thinks for longer than the stream's TTL is silent, not gone: its writer renews the stream, until it is ended, or has
// been silent for an hour.
// Guarantee: Streams: A writer that is silent for longer than its TTL keeps its stream.
func TestSilentWriter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, session, w := silentWriter(t, time.Second)
		streams := store.Streams()
		for range 3 {
			time.Sleep(2500 * time.Millisecond)
			if err := cmp.Or(w.Write(t.Context(), []byte("x")), w.Flush(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
		if w.Stream().Next != 3 {
			t.Errorf("%d parts are stored", w.Stream().Next)
		}
		time.Sleep(maxSilence - time.Minute)
		if _, err := streams.Get(t.Context(), "k"); err != nil {
			t.Errorf("silent for less than an hour: %v", err)
		}
		time.Sleep(2 * time.Minute)
		if _, err := streams.Get(t.Context(), "k"); !errors.Is(err, repo.ErrGone) && !errors.Is(err, repo.ErrNotFound) {
			t.Errorf("silent for more than an hour: %v", err)
		}
		// What is left is the message.
		if err := cmp.Or(w.Write(t.Context(), []byte("y")), w.Flush(t.Context()), w.Write(t.Context(), []byte("z")), w.Flush(t.Context())); err != nil {
			t.Errorf("a part for a stream that has expired: %v", err)
		}
		if err := w.Gone(); !errors.Is(err, repo.ErrGone) {
			t.Errorf("gone: %v", err)
		}
		if err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
			_, err := tx.Sessions().Append(ctx, session, repo.NewMessage{Role: repo.RoleAssistant, Content: "xxxyz"})
			return cmp.Or(err, tx.Streams().Finish(ctx, w.Stream()))
		}); err != nil {
			t.Errorf("the message was refused: %v", err)
		}
	})
}

// A stream that its writer, or another one, has ended is not renewed; one that another writer has taken over refuses
// the next part.
func TestRenewalEnds(t *testing.T) {
	t.Parallel()
	for _, end := range []func(ctx context.Context, streams repo.Streams, w *PartWriter) error{
		func(ctx context.Context, _ repo.Streams, w *PartWriter) error { return w.Finish(ctx) },
		func(ctx context.Context, _ repo.Streams, w *PartWriter) error { return w.Fail(ctx, "x") },
		func(ctx context.Context, streams repo.Streams, w *PartWriter) error {
			return streams.Finish(ctx, w.Stream())
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			store, _, w := silentWriter(t, time.Second)
			if err := end(t.Context(), store.Streams(), w); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			if _, err := store.Streams().Get(t.Context(), "k"); !errors.Is(err, repo.ErrGone) {
				t.Errorf("after its end and its TTL: %v", err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		store, _, w := silentWriter(t, time.Minute)
		if _, err := store.Streams().Open(t.Context(), repo.NewStream{Key: "k", Owner: "other"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, is := errors.AsType[*repo.FencedError](w.Write(t.Context(), []byte("x"))); !is {
			t.Error("a writer that was replaced was not told")
		}
	})
}

// fakeStream is a stream whose appends each take a second, and fail as a test decides.
type fakeStream struct {
	repo.Streams
	parts   []string
	calls   []int // how many parts each append had
	fail    func(call int) (stored bool, err error)
	takes   time.Duration // instead of a second
	ended   string
	endings int
}

func (f *fakeStream) Append(ctx context.Context, stream repo.Stream, parts ...[]byte) (int64, error) {
	call := len(f.calls)
	f.calls = append(f.calls, len(parts))
	select {
	case <-ctx.Done():
		return stream.Next, ctx.Err()
	case <-time.After(cmp.Or(f.takes, time.Second)):
	}
	stored, err := true, error(nil)
	if f.fail != nil {
		stored, err = f.fail(call)
	}
	for i, part := range parts {
		switch at := int(stream.Next) + i; {
		case !stored:
		case at < len(f.parts) && f.parts[at] != string(part):
			return stream.Next, repo.ErrConflict
		case at == len(f.parts):
			f.parts = append(f.parts, string(part))
		}
	}
	if err != nil {
		return stream.Next, err
	}
	return stream.Next + int64(len(parts)), nil
}

func (f *fakeStream) Finish(_ context.Context, stream repo.Stream) error {
	f.endings++
	if f.ended = "finished"; int(stream.Next) != len(f.parts) {
		f.ended = "finished too early"
	}
	return nil
}

func (f *fakeStream) Fail(_ context.Context, _ repo.Stream, reason string) error {
	f.endings++
	f.ended = reason
	return nil
}

func writing(t *testing.T, f *fakeStream, test func(ctx context.Context, cancel context.CancelFunc, w *PartWriter)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		test(ctx, cancel, NewPartWriter(ctx, f, repo.Stream{Next: int64(len(f.parts))}))
	})
}

func writeParts(ctx context.Context, t *testing.T, w *PartWriter, parts ...string) {
	t.Helper()
	for _, part := range parts {
		buffer := []byte(part)
		if err := w.Write(ctx, buffer); err != nil {
			t.Errorf("Write gave %v", err)
		}
		clear(buffer) // it keeps none of the caller's memory
	}
}

// The first part is stored at once, and those that come meanwhile together after it.
func TestPartWriterJoins(t *testing.T) {
	f := &fakeStream{}
	writing(t, f, func(ctx context.Context, _ context.CancelFunc, w *PartWriter) {
		begun := time.Now()
		writeParts(ctx, t, w, "a")
		synctest.Wait()
		ended, end := context.WithCancel(ctx)
		end()
		writeParts(ctx, t, w, "b", "c")
		writeParts(ended, t, w, "d") // it need not wait
		if waited := time.Since(begun); waited != 0 {
			t.Errorf("Write took %v", waited)
		}
		if err := w.Finish(ctx); err != nil || time.Since(begun) != 2*time.Second {
			t.Errorf("Finish gave %v after %v", err, time.Since(begun))
		}
		if next := w.Stream().Next; next != 4 || f.ended != "finished" {
			t.Errorf("next is %d, the stream is %s", next, f.ended)
		}
	})
	if !slices.Equal(f.calls, []int{1, 3}) || strings.Join(f.parts, "") != "abcd" {
		t.Errorf("appends of %v: %q", f.calls, f.parts)
	}
}

// What may be stored or not is made again as it was.
func TestPartWriterRepeats(t *testing.T) {
	f := &fakeStream{fail: func(call int) (bool, error) {
		switch call {
		case 0:
			return true, repo.ErrUnknownOutcome
		case 1:
			return false, repo.ErrUnavailable
		case 2:
			return false, repo.ErrUnknownOutcome
		case 3:
			return false, repo.ErrContention
		}
		return true, nil
	}}
	writing(t, f, func(ctx context.Context, _ context.CancelFunc, w *PartWriter) {
		writeParts(ctx, t, w, "a")
		synctest.Wait()
		writeParts(ctx, t, w, "b", "c")
		if err := w.Fail(ctx, "enough"); err != nil || f.ended != "enough" {
			t.Errorf("Fail gave %v, and the stream is %q", err, f.ended)
		}
	})
	if !slices.Equal(f.calls, []int{1, 1, 1, 1, 1, 2}) || strings.Join(f.parts, "") != "abc" {
		t.Errorf("appends of %v: %q", f.calls, f.parts)
	}
}

// An append without an answer is made again after some time.
func TestPartWriterWaitsForNoAnswer(t *testing.T) {
	f := &fakeStream{}
	f.fail = func(call int) (bool, error) {
		if call == 0 {
			time.Sleep(writeTimeout)
			return true, context.DeadlineExceeded
		}
		return true, nil
	}
	writing(t, f, func(ctx context.Context, _ context.CancelFunc, w *PartWriter) {
		writeParts(ctx, t, w, "a", "b")
		if err := w.Flush(ctx); err != nil || strings.Join(f.parts, "") != "ab" {
			t.Errorf("Flush gave %v: %q", err, f.parts)
		}
	})
}

// After an error for good nothing more is stored, and all callers get it.
func TestPartWriterFails(t *testing.T) {
	f := &fakeStream{fail: func(int) (bool, error) { return false, &repo.FencedError{} }}
	writing(t, f, func(ctx context.Context, _ context.CancelFunc, w *PartWriter) {
		writeParts(ctx, t, w, "a")
		synctest.Wait()
		writeParts(ctx, t, w, "b")
		for _, err := range []error{w.Flush(ctx), w.Write(ctx, []byte("c")), w.Finish(ctx), w.Fail(ctx, "why")} {
			if _, fenced := errors.AsType[*repo.FencedError](err); !fenced {
				t.Errorf("got %v", err)
			}
		}
		if len(f.calls) != 1 || f.endings != 0 || w.Stream().Next != 0 {
			t.Errorf("%d appends, %d ends, next is %d", len(f.calls), f.endings, w.Stream().Next)
		}
	})
}

// Memory is bounded: a caller that writes faster than can be stored waits, as long as its
// own context allows.
func TestPartWriterIsBounded(t *testing.T) {
	f := &fakeStream{}
	writing(t, f, func(ctx context.Context, _ context.CancelFunc, w *PartWriter) {
		writeParts(ctx, t, w, "a")
		synctest.Wait()
		begun := time.Now()
		for range maxParts {
			writeParts(ctx, t, w, "b")
		}
		if waited := time.Since(begun); waited != 0 {
			t.Errorf("waited %v", waited)
		}
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		if err := w.Write(short, []byte("c")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one more gave %v", err)
		}
		const large = 8 // parts of an eighth of what may wait twice
		for range large {
			writeParts(ctx, t, w, strings.Repeat("d", 2*maxWaitingBytes/large))
		}
		if waited := time.Since(begun); waited != 2*time.Second {
			t.Errorf("waited %v", waited)
		}
		for i, part := range []string{strings.Repeat("e", repo.MaxPartBytes), "f"} { // neither joins what waits
			writeParts(ctx, t, w, part)
			if waited := time.Since(begun); waited != time.Duration(3+i)*time.Second {
				t.Errorf("part %d waited %v", i, waited)
			}
		}
		if err := w.Flush(ctx); err != nil || len(f.parts) != 1+maxParts+large+2 || slices.Contains(f.parts, "c") {
			t.Errorf("Flush gave %v, %d parts", err, len(f.parts))
		}
		for _, part := range [][]byte{nil, make([]byte, repo.MaxPartBytes+1)} {
			if err := w.Write(ctx, part); !errors.Is(err, repo.ErrInvalid) {
				t.Errorf("a part of %d bytes gave %v", len(part), err)
			}
		}
	})
}

// Flush waits for what was written before it, also while others go on writing.
func TestPartWriterFlushesWhatWasWritten(t *testing.T) {
	f := &fakeStream{}
	writing(t, f, func(ctx context.Context, _ context.CancelFunc, w *PartWriter) {
		others, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for others.Err() == nil {
				writeParts(ctx, t, w, "x")
				time.Sleep(10 * time.Millisecond)
			}
		}()
		writeParts(ctx, t, w, "a")
		short, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if err := w.Flush(short); err != nil {
			t.Errorf("Flush gave %v, and %d parts are stored", err, w.Stream().Next)
		}
		stop()
		<-ended
		if err := w.Flush(ctx); err != nil || !slices.Contains(f.parts, "a") {
			t.Errorf("Flush gave %v, %d parts", err, len(f.parts))
		}
	})
}

// An append that takes long, as of 4 MiB by a slow network, is stored in the end.
func TestPartWriterTakesItsTime(t *testing.T) {
	f := &fakeStream{takes: 3 * writeTimeout}
	writing(t, f, func(ctx context.Context, _ context.CancelFunc, w *PartWriter) {
		writeParts(ctx, t, w, "a")
		short, cancel := context.WithTimeout(ctx, 10*time.Minute)
		defer cancel()
		if err := w.Flush(short); err != nil {
			t.Errorf("Flush gave %v after %d appends", err, len(f.calls))
		}
	})
}

// The context of the writer ends it.
func TestPartWriterEnds(t *testing.T) {
	f := &fakeStream{takes: time.Millisecond, fail: func(int) (bool, error) { return false, repo.ErrUnavailable }}
	writing(t, f, func(ctx context.Context, cancel context.CancelFunc, w *PartWriter) {
		writeParts(ctx, t, w, "a")
		time.AfterFunc(time.Minute, cancel) // during a pause
		if err := w.Flush(context.WithoutCancel(ctx)); !errors.Is(err, repo.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("Flush gave %v", err)
		}
		if err := w.Write(context.WithoutCancel(ctx), []byte("b")); err == nil {
			t.Error("Write after the end gave no error")
		}
	})
}

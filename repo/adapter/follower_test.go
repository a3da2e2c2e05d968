package adapter

import (
	"context"
	"errors"
	"io"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// Fake time: the tests with times run in bubbles of synctest.

var errLast = errors.New("the last one")

// counting yields 0, 1, … up to below end, and then ends, with err if that is set, or waits
// if waits is set.
func counting(end int, err error, waits bool, running *int) func(context.Context) iter.Seq2[int, error] {
	return func(ctx context.Context) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			*running++
			defer func() { *running-- }()
			for i := range end {
				if !yield(i, nil) {
					return
				}
			}
			if waits {
				<-ctx.Done()
				err = ctx.Err()
			}
			if err != nil {
				yield(0, err)
			}
		}
	}
}

func wantNext(t *testing.T, ctx context.Context, f *Follower[int], want int, wantErr error) { //nolint:revive // t comes first here
	t.Helper()
	if got, err := f.Next(ctx); got != want || !errors.Is(err, wantErr) {
		t.Errorf("got %d, %v; want %d, %v", got, err, want, wantErr)
	}
}

func TestFollowerReturnsAllToTheEnd(t *testing.T) {
	for _, end := range []error{nil, errLast} {
		running := 0
		f := newFollower(t.Context(), counting(3, end, false, &running))
		if running != 0 {
			t.Error("it has begun before the first Next")
		}
		for i := range 3 {
			wantNext(t, t.Context(), f, i, nil)
		}
		want := end
		if end == nil {
			want = io.EOF
		}
		for range 2 {
			wantNext(t, t.Context(), f, 0, want)
		}
		for range 2 {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
		wantNext(t, t.Context(), f, 0, repo.ErrClosed)
		if running != 0 {
			t.Error("it goes on after Close")
		}
	}
}

// A Next that waits ends with its context, with that of the follower, and with Close, and
// what is followed ends with it.
func TestFollowerEnds(t *testing.T) {
	for name, end := range map[string]func(f *Follower[int], next, follower context.CancelFunc){
		"Next's context": func(_ *Follower[int], next, _ context.CancelFunc) { next() },
		"its context":    func(_ *Follower[int], _, follower context.CancelFunc) { follower() },
		"Close":          func(f *Follower[int], _, _ context.CancelFunc) { _ = f.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				running := 0
				ctx, cancelNext := context.WithCancel(t.Context())
				own, cancelOwn := context.WithCancel(t.Context())
				defer cancelNext()
				defer cancelOwn()
				f := newFollower(own, counting(1, nil, true, &running))
				wantNext(t, ctx, f, 0, nil)
				time.AfterFunc(time.Second, func() { end(f, cancelNext, cancelOwn) })
				first, again := context.Canceled, repo.ErrClosed
				switch name {
				case "its context":
					again = context.Canceled
				case "Close":
					first = repo.ErrClosed
				}
				wantNext(t, ctx, f, 0, first)
				wantNext(t, t.Context(), f, 0, again)
				if err := f.Close(); err != nil || running != 0 {
					t.Errorf("Close gave %v, %d are running", err, running)
				}
			})
		})
	}
}

// A Next that waits for its turn ends with its own context, and closes nothing.
func TestFollowerTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running := 0
		f := newFollower(t.Context(), func(context.Context) iter.Seq2[int, error] {
			return func(yield func(int, error) bool) {
				running++
				defer func() { running-- }()
				time.Sleep(time.Minute)
				yield(7, nil)
			}
		})
		first := make(chan struct{})
		go func() {
			defer close(first)
			wantNext(t, t.Context(), f, 7, nil)
		}()
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		wantNext(t, short, f, 0, context.DeadlineExceeded)
		if waited := time.Since(begun); waited != time.Second {
			t.Errorf("the second Next waited %v", waited)
		}
		<-first
		if err := f.Close(); err != nil || running != 0 {
			t.Errorf("Close gave %v, %d are running", err, running)
		}
	})
}

// A context that has ended before it is the call's turn closes nothing, also if there is no
// other call.
func TestFollowerIsNotClosedByContextThatHasEnded(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // a select chooses at random
		running := 0
		f := newFollower(t.Context(), counting(1, nil, true, &running))
		wantNext(t, ended, f, 0, context.Canceled)
		wantNext(t, t.Context(), f, 0, nil)
		_ = f.Close()
		if t.Failed() {
			return
		}
	}
}

// When Next's context ends, the follower is closed: what is followed has ended.
func TestFollowerThatIsClosedByContextLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running := 0
		f := newFollower(t.Context(), counting(1, nil, true, &running))
		defer f.Close()
		wantNext(t, t.Context(), f, 0, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantNext(t, ctx, f, 0, context.DeadlineExceeded)
		if running != 0 {
			t.Error("it goes on after the follower was closed")
		}
	})
}

// One that was never asked for anything need not be closed; one that was closed before
// begins nothing.
func TestFollowerHoldsNothingBefore(t *testing.T) {
	running := 0
	f := newFollower(t.Context(), counting(1, nil, true, &running))
	_ = f.Close()
	wantNext(t, t.Context(), f, 0, repo.ErrClosed)
	if f.next != nil {
		t.Error("it has begun")
	}
}

package repotest

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

func contextTests() []test {
	return []test{
		{"Canceled", func(t *testing.T, store repo.Store) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			testContextEnded(t, store, ctx, context.Canceled)
		}},
		{"DeadlineExceeded", func(t *testing.T, store repo.Store) {
			ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
			defer cancel()
			testContextEnded(t, store, ctx, context.DeadlineExceeded)
		}},
		{"Stream", testStreamContext},
		{"EndsMeanwhile", testContextEndsMeanwhile},
		{"Stalled", testStalled},
	}
}

// refusable are calls that are ready to be made where they must not begin.
type refusable struct {
	f     *fixture
	calls []call
	args  []args
}

func newRefusable(t *testing.T, store repo.Store) refusable {
	t.Helper()
	all := refusable{f: newFixture(t, store, spaceOf(store))}
	for _, c := range contract {
		if c.only != views {
			all.calls, all.args = append(all.calls, c), append(all.args, c.args(all.f))
		}
	}
	return all
}

// wantRefused makes all calls, which must change nothing.
func (all refusable) wantRefused(ctx context.Context, of map[string]reflect.Value, is func(error) bool) {
	all.f.t.Helper()
	for i, c := range all.calls {
		_, err := c.runOn(ctx, of, all.args[i])
		if !is(err) {
			all.f.t.Errorf("%s gave %v", c.name, err)
		}
		if errors.Is(err, repo.ErrUnknownOutcome) {
			all.f.t.Errorf("%s gave %v, but nothing can have been sent", c.name, err)
		}
		wantDiscreet(all.f.t, err)
	}
}

// A context that has already ended stops every operation before it begins.
//
//nolint:revive // the context is what is tested
func testContextEnded(t *testing.T, store repo.Store, ctx context.Context, want error) {
	all := newRefusable(t, store)
	before := all.f.read()
	all.wantRefused(ctx, repositories(store), func(err error) bool { return errors.Is(err, want) })
	wantSame(t, "store afterwards", all.f.read(), before)
}

// If a context ends during an append, the append returns the context's error and
// has written nothing, or it returns ErrUnknownOutcome, or it succeeds. Repeating
// it with the same id is safe in each case.
func testContextEndsMeanwhile(t *testing.T, store repo.Store) {
	const rounds = 60
	s := store.Sessions()
	id := create(t, s)
	for round := range rounds {
		message := fullMessage()
		// short: whenever it ends, the test holds.
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(round)*50*time.Microsecond)
		stored, err := s.Append(ctx, id, message)
		cancel()
		_, readErr := s.Message(t.Context(), id, message.ID)
		switch {
		case err == nil:
			wantStored(t, id, int64(round), []repo.NewMessage{message}, stored)
		case errors.Is(err, repo.ErrUnknownOutcome):
		case errors.Is(err, context.DeadlineExceeded):
			wantNotFound(t, readErr, "message", message.ID)
		default:
			t.Errorf("got %v, want the context's error or ErrUnknownOutcome", err)
		}
		wantDiscreet(t, err)
		again := appendTo(t, s, id, message)
		wantStored(t, id, int64(round), []repo.NewMessage{message}, again)
	}
	wantCount(t, s, id, rounds)
}

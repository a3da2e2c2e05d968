package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
)

const (
	writers = 32
	// sessionsPerRound is small enough that writers share sessions, and large enough
	// that groups have several.
	sessionsPerRound = 8
	// clientPause is how long a client waits before it sends a message again.
	clientPause = 5 * time.Millisecond
)

// acknowledgement is an append that returned without an error.
type acknowledgement struct {
	session, message repo.ID
	sequence         int64
}

// load has clients that append one message after the other, and send each again, by
// its id, until it is acknowledged.
type load struct {
	sessions repo.Sessions
	ids      []repo.ID
	// onBegin and onAck, if set, are called for each message, by all writers
	// concurrently.
	onBegin func(session, message repo.ID)
	onAck   func(acknowledgement)

	stopping  chan struct{}
	running   sync.WaitGroup
	successes []atomic.Int64 // for each writer, when its last acknowledged call began

	mu           sync.Mutex
	calls        context.Context // of the calls that begin now
	endCalls     context.CancelFunc
	acknowledged []acknowledgement
	errors       map[string]int // seen by callers, by kind
	failures     []error        // not explained by a fault
}

var began = time.Now()

// now returns a monotonic time.
func now() int64 { return int64(time.Since(began)) }

func newLoad(sessions repo.Sessions, ids []repo.ID) *load {
	l := &load{
		sessions: sessions, ids: ids, stopping: make(chan struct{}), successes: make([]atomic.Int64, writers), errors: map[string]int{},
	}
	l.giveUp()
	return l
}

func startLoad(ctx context.Context, sessions repo.Sessions, ids []repo.ID) *load {
	l := newLoad(sessions, ids)
	l.start(ctx)
	return l
}

// giveUp ends the contexts of the calls that are under way, as callers do that wait no longer.
func (l *load) giveUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.endCalls != nil {
		l.endCalls()
	}
	l.calls, l.endCalls = context.WithCancel(context.Background())
}

// giveUpUntil has callers give up, each after a longer wait, until something is so.
func (l *load) giveUpUntil(t *testing.T, what string, holds func() bool) {
	t.Helper()
	pause := 50 * time.Millisecond
	await.For(t, what, func() bool {
		if holds() {
			return true
		}
		time.Sleep(pause) // pace: for so long they wait for an answer
		l.giveUp()
		pause *= 2
		return false
	})
}

func (l *load) start(ctx context.Context) {
	for w := range writers {
		l.running.Go(func() {
			for i := 0; !l.stopped(); i++ {
				if !l.deliver(ctx, w, l.ids[(w+i)%len(l.ids)], repo.NewID()) {
					return
				}
			}
		})
	}
}

func (l *load) stopped() bool {
	select {
	case <-l.stopping:
		return true
	default:
		return false
	}
}

// content returns the content of the message with this id, the same in each process.
// It is long enough to fill pages of the table.
func content(id repo.ID) string { return id.String() + strings.Repeat(".", 1000) }

func newMessage(id repo.ID) repo.NewMessage {
	return repo.NewMessage{ID: id, Role: repo.RoleUser, Content: content(id)}
}

// deliver sends one message until it is acknowledged. It returns false if it failed
// with an error that no fault explains, or ctx ended.
func (l *load) deliver(ctx context.Context, writer int, session, message repo.ID) bool {
	if l.onBegin != nil {
		l.onBegin(session, message)
	}
	for ctx.Err() == nil {
		begun := now()
		stored, err := l.call(ctx, session, message)
		if err == nil {
			a := acknowledgement{session, stored[0].ID, stored[0].Sequence}
			l.acknowledge(a)
			l.successes[writer].Store(begun)
			return true
		}
		l.mu.Lock()
		l.errors[kind(err)]++
		if !isExcused(err) {
			l.failures = append(l.failures, err)
		}
		l.mu.Unlock()
		if !isExcused(err) {
			return false
		}
		time.Sleep(clientPause + rand.N(clientPause)) // pace: until it sends the message again
	}
	return false
}

func (l *load) call(ctx context.Context, session, message repo.ID) ([]repo.Message, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.mu.Lock()
	given := l.calls
	l.mu.Unlock()
	defer context.AfterFunc(given, cancel)()
	return l.sessions.Append(ctx, session, newMessage(message))
}

func (l *load) acknowledge(a acknowledgement) {
	if l.onAck != nil {
		l.onAck(a)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acknowledged = append(l.acknowledged, a)
}

// isExcused reports whether a fault may cause the error. A conflict is not among
// them: a message that is sent again is the same message.
func isExcused(err error) bool {
	return errors.Is(err, repo.ErrUnknownOutcome) || errors.Is(err, repo.ErrUnavailable) ||
		errors.Is(err, repo.ErrContention) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// kind returns a short name of an error: its SQLSTATE, or our name for it.
func kind(err error) string {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pgErr.Code
	}
	switch {
	case errors.Is(err, repo.ErrUnknownOutcome):
		return "unknown outcome"
	case errors.Is(err, repo.ErrUnavailable):
		return "unavailable"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "not sent in time"
	}
	return "other"
}

// seen returns the number of errors of a kind so far, or of all kinds if kind is
// empty.
func (l *load) seen(kind string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if kind != "" {
		return l.errors[kind]
	}
	sum := 0
	for _, count := range l.errors {
		sum += count
	}
	return sum
}

// awaitSeen waits until a caller has seen an error of a kind.
func (l *load) awaitSeen(t *testing.T, kind string) {
	t.Helper()
	await.For(t, fmt.Sprintf("a caller saw an error %q", kind), func() bool { return l.seen(kind) > 0 })
}

// awaitAll waits until each writer has had a call acknowledged that it began after
// the given time, and returns how long after that time this was.
func (l *load) awaitAll(t *testing.T, since int64) time.Duration {
	t.Helper()
	await.For(t, "every writer's messages are acknowledged again", func() bool { return l.allSince(since) || l.failed() })
	return time.Duration(now() - since)
}

func (l *load) allSince(since int64) bool {
	for w := range l.successes {
		if l.successes[w].Load() <= since {
			return false
		}
	}
	return true
}

func (l *load) failed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.failures) > 0
}

// stop stops the writers when they have finished their messages.
func (l *load) stop(t *testing.T) {
	t.Helper()
	close(l.stopping)
	l.running.Wait()
	for _, err := range l.failures {
		t.Errorf("no fault explains this error: %v", err)
	}
}

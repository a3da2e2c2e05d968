package repo

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed-df90f812/agentstore/internal/limits"
)

// HeldLease is a lease that is renewed ([HoldLease]), safe for concurrent use.
type HeldLease struct {
	leases Leases
	ttl    time.Duration
	now    func() moment
	ctx    context.Context //nolint:containedctx // it ends with the lease; without the check of the clock
	cancel context.CancelCauseFunc
	alarm  *time.Timer
	// ended is closed when the goroutines that renew it and wait for its end have ended.
	ended chan struct{}

	mu    sync.Mutex
	lease Lease
	// sent is when the request that the lease's life is counted from was sent.
	sent moment
	// failed is why the last attempt to renew it failed. Nil: it succeeded.
	failed error
}

// HoldLease acquires a lease and renews it in the background. Work under it with the context of what HoldLease returns,
// which ends when ctx does, and when the lease is lost or can no longer be known to be held: context.Cause is then a
// LeaseLostError. Call Release at the end of the work.
//
// The life ends here 2 % earlier than in the database. What must not happen after the loss of a lease has to be
// refused where it is written, by Lease.Fence, since a process may be stopped just before it writes.
//
// Errors: as of Leases.Acquire. In a transaction use Leases.Acquire.
func HoldLease(ctx context.Context, store Store, lease NewLease) (*HeldLease, error) {
	return hold(ctx, store.Leases(), lease, clock)
}

const (
	// renewPart and attemptPart are the parts of a life after which it is renewed, and after which the first attempt to do
	// so is given up: a connection may never give an answer. Each further attempt may take twice as long, since the server
	// may be slow.
	renewPart, attemptPart = 3, 6
	// marginPart is the part of a life by which it ends early: clocks run at different speeds, by far less than this.
	marginPart = 50
	// maxRenewPause bounds the pause between attempts, which is a part of the life.
	maxRenewPause, renewPausePart = time.Second, 50
)

func hold(ctx context.Context, leases Leases, lease NewLease, now func() moment) (*HeldLease, error) {
	h := &HeldLease{leases: leases, ttl: cmp.Or(lease.TTL, limits.DefaultLeaseTTL), now: now, ended: make(chan struct{})}
	// If the answer took long, another attempt finds the same lease, and less doubt.
	for attempt := 0; attempt < 2 && (attempt == 0 || h.left() < h.ttl-h.ttl/renewPart); attempt++ {
		sent := now()
		acquired, err := leases.Acquire(ctx, lease)
		switch {
		case err == nil:
			h.lease, h.sent = acquired, sent
		case attempt == 0, h.left() <= 0, errors.Is(err, ErrConflict):
			return nil, err
		} // otherwise the lease is held: the error would say that it is not
		lease.Wait = false
	}
	return h.begin(ctx), nil
}

// holdClaimed is HoldLease for a lease that a claim has given, which was sent at a moment, without acquiring it again
// unless that was so long ago that it would be renewed.
func holdClaimed(ctx context.Context, leases Leases, lease Lease, ttl time.Duration, sent moment) (*HeldLease, error) {
	if clock().since(sent) >= ttl/renewPart {
		return hold(ctx, leases, NewLease{Key: lease.Key, Owner: lease.Owner, TTL: ttl}, clock)
	}
	h := &HeldLease{leases: leases, ttl: ttl, now: clock, ended: make(chan struct{}), lease: lease, sent: sent}
	return h.begin(ctx), nil
}

func (h *HeldLease) begin(ctx context.Context) *HeldLease {
	h.ctx, h.cancel = context.WithCancelCause(ctx)
	h.mu.Lock() // the alarm may ring at once
	h.alarm = time.AfterFunc(h.left(), h.ring)
	h.mu.Unlock()
	go h.keep() //nolint:contextcheck // it has the context
	return h
}

// Context returns the context that ends with the lease.
func (h *HeldLease) Context() context.Context { return heldContext{h.ctx, h} }

// Err returns nil while the lease is held, and then the context.Cause of Context.
func (h *HeldLease) Err() error {
	h.check()
	return context.Cause(h.ctx)
}

// Lease returns the lease as it was last renewed.
func (h *HeldLease) Lease() Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lease
}

// Release ends the context and releases the lease. It may be repeated. If ctx may have ended, pass
// context.WithoutCancel(ctx).
func (h *HeldLease) Release(ctx context.Context) error {
	h.end(nil)
	<-h.ended
	return h.leases.Release(ctx, h.Lease())
}

// heldContext looks at the clock itself: in a process that was stopped, what is woken
// first may ask it before the timers ring.
type heldContext struct {
	context.Context //nolint:containedctx // it is one

	held *HeldLease
}

func (c heldContext) Err() error {
	c.held.check()
	return c.Context.Err()
}

// left returns how much is left of the life. The caller holds mu, or is the only one that has h.
func (h *HeldLease) left() time.Duration { return h.ttl - h.ttl/marginPart - h.now().since(h.sent) }

// check ends the context if the life is over.
func (h *HeldLease) check() (left time.Duration) {
	h.mu.Lock()
	left = h.left()
	h.mu.Unlock()
	if left <= 0 {
		h.lose()
	}
	return left
}

// ring is called when the life was to be over, by the life that was known then.
func (h *HeldLease) ring() {
	if left := h.check(); left > 0 && h.ctx.Err() == nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.alarm.Reset(left)
	}
}

// lose ends the context because the lease was not renewed in time.
func (h *HeldLease) lose() {
	h.mu.Lock()
	lost := &LeaseLostError{Key: h.lease.Key, Owner: h.lease.Owner, Fence: h.lease.Fence, Err: h.failed}
	h.mu.Unlock()
	h.end(lost)
}

func (h *HeldLease) end(cause error) {
	h.cancel(cause)
	h.alarm.Stop()
}

// keep renews the lease until the context ends.
func (h *HeldLease) keep() {
	defer close(h.ended)
	var awaiting sync.WaitGroup
	awaiting.Go(h.await)
	defer awaiting.Wait()
	defer h.alarm.Stop() // ctx may have ended it
	for {
		h.mu.Lock()
		wait := h.ttl/renewPart - h.now().since(h.sent)
		h.mu.Unlock()
		if !sleep(h.ctx, wait) || !h.renew() {
			return
		}
	}
}

// await ends the context when the lease has ended. If it cannot learn of that, renewing does.
func (h *HeldLease) await() {
	if lost, is := errors.AsType[*LeaseLostError](h.leases.Await(h.ctx, h.Lease())); is {
		h.end(lost)
	}
}

// renew renews the lease, in as many attempts as its life allows. It returns false if
// the context has ended.
func (h *HeldLease) renew() bool {
	for timeout := h.ttl / attemptPart; ; timeout *= 2 {
		err := h.tryToRenew(timeout)
		if err == nil {
			return true
		}
		if h.ctx.Err() != nil {
			return false
		}
		lost, isLost := errors.AsType[*LeaseLostError](err)
		switch {
		case isLost:
			h.end(lost)
		case errors.Is(err, ErrClosed): // it can be renewed no more
			h.lose()
		}
		if !sleep(h.ctx, min(h.ttl/renewPausePart, maxRenewPause)) {
			return false
		}
	}
}

func (h *HeldLease) tryToRenew(timeout time.Duration) error {
	lease, sent := h.Lease(), h.now()
	ctx, cancel := context.WithTimeout(h.ctx, timeout)
	defer cancel()
	renewed, err := h.leases.Renew(ctx, lease, h.ttl)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed = err
	if err == nil {
		h.lease, h.sent = renewed, sent
		h.alarm.Reset(h.left())
	}
	return err
}

// moment is a reading of this machine's clocks.
type moment struct {
	// monotonic does not step, but may stand still while the machine is suspended.
	monotonic time.Duration
	wall      time.Time
}

var clockStart = time.Now()

func clock() moment {
	now := time.Now()
	return moment{now.Sub(clockStart), now.Round(0)}
}

// since returns how long ago a moment was, by the clock that says it was longer.
func (m moment) since(before moment) time.Duration {
	return max(m.monotonic-before.monotonic, m.wall.Sub(before.wall))
}

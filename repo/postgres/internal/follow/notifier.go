package follow

import (
	"context"
	"sync"
	"time"
)

// The pauses of a Notifier after it has sent something: if there was a listener, if that was
// news of many logs, if there was none, and if it failed. Commits of the meantime are one
// message. Each message costs its senders and listeners a statement: where much is new, half
// as many leave the processor to the writers and the waiting followers.
const (
	heardPause   = 3 * time.Millisecond
	busyPause    = 6 * time.Millisecond
	unheardPause = 50 * time.Millisecond
	failedPause  = 500 * time.Millisecond
)

// busyNews are many, for busyPause.
const busyNews = 16

// maxPending bounds what waits to be sent. Above that, news are dropped: the polls of
// other processes find them.
const maxPending = 1 << 16

// lastSend bounds how long Close waits for the last message.
const lastSend = time.Second

// Notifier sends news to other processes: soon, and not one by one. It is safe for
// concurrent use. NewNotifier makes one.
type Notifier struct {
	send    func(ctx context.Context, payloads []string) (heard bool, err error)
	ctx     context.Context
	cancel  context.CancelFunc
	closing chan struct{}
	running sync.WaitGroup

	mu      sync.Mutex
	pending map[Subject]int64
	sending bool // a goroutine does
	closed  bool
}

// NewNotifier returns a Notifier. send sends payloads, and reports whether there
// was a listener. The caller must close the Notifier.
func NewNotifier(send func(ctx context.Context, payloads []string) (heard bool, err error)) *Notifier {
	n := &Notifier{send: send, closing: make(chan struct{}), pending: map[Subject]int64{}}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	return n
}

// Add has news sent. It does not wait, and never fails.
func (n *Notifier) Add(news ...News[Subject]) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	for _, one := range news {
		next, found := n.pending[one.Key]
		switch {
		case !found && len(n.pending) >= maxPending:
		case !found, one.Next == Look, next != Look && one.Next > next:
			n.pending[one.Key] = one.Next
		}
	}
	if !n.sending && len(n.pending) > 0 {
		n.sending = true
		n.running.Go(n.run)
	}
}

// Close sends what is pending, for at most a second, and refuses more.
func (n *Notifier) Close() {
	n.mu.Lock()
	if !n.closed {
		n.closed = true
		close(n.closing)
	}
	n.mu.Unlock()
	stop := time.AfterFunc(lastSend, n.cancel)
	defer stop.Stop()
	n.running.Wait()
	n.cancel()
}

// run sends what is pending, until nothing is.
func (n *Notifier) run() {
	for {
		pending := n.take()
		if pending == nil {
			return
		}
		heard, err := n.send(n.ctx, encode(pending))
		pause := unheardPause
		switch {
		case err != nil:
			pause = failedPause
		case heard && len(pending) >= busyNews:
			pause = busyPause
		case heard:
			pause = heardPause
		}
		select {
		case <-time.After(pause):
		case <-n.closing:
		}
	}
}

// take takes what is pending. If nothing is, the caller must end.
func (n *Notifier) take() map[Subject]int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.pending) == 0 {
		n.sending = false
		return nil
	}
	pending := n.pending
	n.pending = make(map[Subject]int64, len(pending))
	return pending
}

package postgres

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
)

// The bounds of one group. An append that is larger than them goes alone.
const (
	groupMessages = 2000
	groupBytes    = 4 << 20
	// sessionMessages bounds one session's share, so that those who wait behind
	// a session with thousands of appends are in the next group all the same.
	sessionMessages = 500
)

// lane is a queue of appends and, while there are any, the goroutine that
// commits them. The goroutine ends when the queue is empty.
type lane struct {
	link    link
	running *sync.WaitGroup
	slots   chan struct{} // one is taken by each append in the queue

	mu     sync.Mutex
	busy   bool                  // a goroutine is at work
	queues map[repo.ID][]*waiter // what waits, by session
	turns  []repo.ID             // the sessions that wait, in the order of their turns
}

// The states of a waiter.
const (
	waiting int32 = iota
	taken
	withdrawn
)

// waiter is an append in a lane.
type waiter struct {
	*appending
	state atomic.Int32
	group *group // set before the state is taken

	answered chan struct{} // closed when row and err are set
	row      db.MessageAppendRow
	err      error
}

// withdraw takes the append back, if no group has it yet.
func (w *waiter) withdraw() bool { return w.state.CompareAndSwap(waiting, withdrawn) }

func (w *waiter) answer(row db.MessageAppendRow, err error) {
	w.row, w.err = row, err
	close(w.answered)
}

func (l *lane) enqueue(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	queue := l.queues[w.sessionID]
	if len(queue) == 0 {
		l.turns = append(l.turns, w.sessionID)
	}
	l.queues[w.sessionID] = append(queue, w)
	if !l.busy {
		l.busy = true
		l.running.Go(l.work)
	}
}

// work commits group after group until nothing waits.
func (l *lane) work() {
	for {
		g := l.take()
		if g == nil {
			return
		}
		g.commit(l.link)
	}
}

// take makes the next group: each session that waits has its turn, in order,
// until the group is full. Nil: nothing waits, and the worker ends.
func (l *lane) take() *group {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := newGroup()
	for turns := len(l.turns); turns > 0 && !g.full(); turns-- {
		sessionID := l.turns[0]
		l.turns = l.turns[1:]
		rest := l.takeFrom(l.queues[sessionID], g)
		if len(rest) == 0 {
			delete(l.queues, sessionID)
			continue
		}
		l.queues[sessionID] = rest
		l.turns = append(l.turns, sessionID)
	}
	if len(g.waiters) == 0 {
		// Nothing waits: an empty group is never full, so that every session
		// had its turn.
		g.cancel()
		l.busy = false
		return nil
	}
	g.seal()
	return g
}

// takeFrom moves one session's share to the group and returns the rest.
func (l *lane) takeFrom(queue []*waiter, g *group) (rest []*waiter) {
	share := 0
	for i, w := range queue {
		size := len(w.messages)
		if share > 0 && (share+size > sessionMessages || g.full()) {
			return slices.Clip(queue[i:])
		}
		<-l.slots
		if g.add(w) {
			share += size
		}
	}
	return nil
}

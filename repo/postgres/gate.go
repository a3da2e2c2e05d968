package postgres

import (
	"cmp"
	"sync"

	"github.com/seed-df90f812/agentstore/repo"
)

// gate admits operations until it is closed; closing it waits for operations under way.
type gate struct {
	mu     sync.RWMutex
	closed bool
	// err, if set, is what a closed gate returns.
	err    error
	inside sync.WaitGroup
	// closing is closed with the gate. It ends operations that would not end by themselves.
	closing chan struct{}
}

func newGate() *gate { return &gate{closing: make(chan struct{})} }

func (g *gate) enter() error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.closed {
		return cmp.Or(g.err, repo.ErrClosed)
	}
	g.inside.Add(1)
	return nil
}

func (g *gate) leave() { g.inside.Done() }

// close closes the gate and waits until no operation is under way.
func (g *gate) close() {
	g.mu.Lock()
	if !g.closed {
		g.closed = true
		close(g.closing)
	}
	g.mu.Unlock()
	g.inside.Wait()
}

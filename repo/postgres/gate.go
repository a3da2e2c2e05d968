package postgres

import (
	"sync"

	"github.com/seed-df90f812/agentstore/repo"
)

// gate lets operations in until it is closed, and lets the closer wait for
// those that are in.
type gate struct {
	mu     sync.RWMutex
	closed bool
	inside sync.WaitGroup
}

func (g *gate) enter() error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.closed {
		return repo.ErrClosed
	}
	g.inside.Add(1)
	return nil
}

func (g *gate) leave() { g.inside.Done() }

// close shuts the gate and waits until nobody is inside.
func (g *gate) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.inside.Wait()
}

package postgres

import (
	"reflect"
	"sync"
)

// committers are a pool's, one of each type. A feature's is made when it is first used, so that
// nothing here knows the features.
type committers struct {
	mu     sync.Mutex
	closed bool
	made   sync.Map // of reflect.Type to closer
}

type closer interface{ Close() }

// committerOf returns the committer of a type, made by the function if it is the first use.
func committerOf[C closer](p *pooled, newC func(*pooled) C) C {
	of := reflect.TypeFor[C]()
	if found, ok := p.committers.made.Load(of); ok {
		return found.(C)
	}
	p.committers.mu.Lock()
	defer p.committers.mu.Unlock()
	if found, ok := p.committers.made.Load(of); ok {
		return found.(C)
	}
	c := newC(p)
	if p.committers.closed {
		c.Close() // it refuses what is submitted
	}
	p.committers.made.Store(of, c)
	return c
}

// close waits for the groups under way. Nothing may be submitted any more.
func (c *committers) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.made.Range(func(_, made any) bool {
		made.(closer).Close()
		return true
	})
}

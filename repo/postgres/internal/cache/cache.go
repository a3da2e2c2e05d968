// Package cache keeps in memory what a process has used last.
package cache

import "sync"

// Cache has two generations: what is used is in the young one, and when that is full, it becomes the old one, which
// is dropped. It is safe for concurrent use. The zero value is ready to use.
type Cache[Key comparable, Value any] struct {
	mu         sync.Mutex
	young, old map[Key]entry[Value]
	bytes      int // of the young generation
}

type entry[Value any] struct {
	value Value
	bytes int
}

// Generation bounds the memory of a generation, more or less. Entry is what an entry has besides its texts.
const (
	Generation = 4 << 20
	Entry      = 128
)

// Get returns the value of a key.
func (c *Cache[Key, Value]) Get(key Key) (Value, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, is := c.young[key]
	if !is {
		if found, is = c.old[key]; is {
			c.put(key, found)
		}
	}
	return found.value, is
}

// Put keeps a value. Its key and texts, which have so many bytes, must be memory of their own.
func (c *Cache[Key, Value]) Put(key Key, value Value, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(key, entry[Value]{value, Entry + bytes})
}

func (c *Cache[Key, Value]) put(key Key, one entry[Value]) {
	c.bytes += one.bytes - c.young[key].bytes
	if c.bytes > Generation {
		c.old, c.young, c.bytes = c.young, nil, one.bytes
	}
	if c.young == nil {
		c.young = map[Key]entry[Value]{}
	}
	c.young[key] = one
}

// Drop forgets a key.
func (c *Cache[Key, Value]) Drop(key Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes -= c.young[key].bytes
	delete(c.young, key)
	delete(c.old, key)
}

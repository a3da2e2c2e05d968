package memory

import (
	"sync"
	"time"
)

// Clock is a clock that stands still until a test moves it. It is safe for concurrent
// use. NewClock makes one, for Options.Clock.
type Clock struct {
	mu  sync.Mutex
	now time.Time
	// alarms are what waits, with the times at which it stops waiting.
	alarms map[chan struct{}]time.Time
}

// NewClock returns a clock that shows start.
func NewClock(start time.Time) *Clock {
	return &Clock{now: start, alarms: map[chan struct{}]time.Time{}}
}

// Now returns the time that the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock by d, and wakes the followers and claims that wait for a time
// that it has reached. It does not wait until they have run. If d is negative, the clock
// steps back, as a database's may: no time of the store's goes back with it.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	for alarm, at := range c.alarms {
		if !at.After(c.now) {
			delete(c.alarms, alarm)
			close(alarm)
		}
	}
}

// read returns the time of the clock, or without one, the process's.
func (c *Clock) read() time.Time {
	if c == nil {
		return time.Now()
	}
	return c.Now()
}

// reach calls wait with a channel from which it can receive once the time has come. A time
// that has been reached meanwhile counts, too. The zero time never comes.
func (c *Clock) reach(at time.Time, wait func(reached <-chan struct{})) {
	if at.IsZero() {
		wait(nil)
		return
	}
	reached := make(chan struct{})
	if c == nil {
		timer := time.AfterFunc(time.Until(at), func() { close(reached) })
		defer timer.Stop()
	} else {
		defer c.set(reached, at)()
	}
	wait(reached)
}

// set sets an alarm, and returns what removes it.
func (c *Clock) set(alarm chan struct{}, at time.Time) (remove func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.After(c.now) {
		c.alarms[alarm] = at
	} else {
		close(alarm)
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.alarms, alarm)
	}
}

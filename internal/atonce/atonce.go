// Package atonce does something for several items at the same time.
package atonce

import (
	"errors"
	"sync"
)

// Each calls do for each item, for n at the same time, and returns all of their errors. After an error it begins no
// more.
func Each[Item any](n int, items []Item, do func(Item) error) error {
	var mu sync.Mutex
	var failed error
	next := 0
	take := func(err error) (i int) {
		mu.Lock()
		defer mu.Unlock()
		failed = errors.Join(failed, err)
		if failed != nil || next == len(items) {
			return -1
		}
		next++
		return next - 1
	}
	var running sync.WaitGroup
	for range min(n, len(items)) {
		running.Go(func() {
			for i := take(nil); i >= 0; {
				i = take(do(items[i]))
			}
		})
	}
	running.Wait()
	return failed
}

package pgtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Clock is a cluster's clock, which a test can step while the server runs. It does not
// affect the machine's clock and the server's timeouts. Its value is the path of the
// file that has its offset from the machine's clock.
type Clock string

// NewClock gives a cluster that has not been started a clock of its own. It needs
// libfaketime; without it the test fails and says how to get it.
func (c *Cluster) NewClock(t testing.TB) Clock {
	t.Helper()
	clock, err := c.newClock()
	if err != nil {
		t.Fatal(err)
	}
	return clock
}

func (c *Cluster) newClock() (Clock, error) {
	library, err := findFaketime(c.binaries)
	if err != nil {
		return "", err
	}
	clock := Clock(filepath.Join(c.Dir, "clock"))
	c.Environment = append(c.Environment,
		"LD_PRELOAD="+library,
		"FAKETIME_TIMESTAMP_FILE="+string(clock),
		"FAKETIME_NO_CACHE=1", // otherwise a step takes effect up to 10 s later
		// Do not affect timeouts. Older versions of the library read the second name.
		"FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1",
		"FAKETIME_DONT_RESET=1", // the server's children use the same clock
		"NO_FAKE_STAT=1",
	)
	return clock, clock.set(0)
}

// Set steps the clock to the machine's plus offset, for all connections.
func (c Clock) Set(t testing.TB, offset time.Duration) {
	t.Helper()
	if err := c.set(offset); err != nil {
		t.Fatal(err)
	}
}

// set replaces the file in one step, so that no reader finds it incomplete.
func (c Clock) set(offset time.Duration) error {
	next := string(c) + ".new"
	if err := os.WriteFile(next, fmt.Appendf(nil, "%+f\n", offset.Seconds()), 0o644); err != nil {
		return err
	}
	return os.Rename(next, string(c))
}

// Stepping says how the clock of the tests' shared server steps. Empty: it does not.
type Stepping string

// StepsBack sets the clock 5 s back after a second, forward again a second later, and
// so on, as if clients moved between two servers of which one's clock is behind.
const StepsBack Stepping = "steps-back"

// start gives such a clock to a cluster that has not been started. stop ends the
// stepping.
func (s Stepping) start(cluster *Cluster) (stop func(), err error) {
	stop = func() {}
	if s == "" {
		return stop, nil
	}
	if s != StepsBack {
		return stop, fmt.Errorf("the clock is %q: it must be empty or %q", s, StepsBack)
	}
	clock, err := cluster.newClock()
	if err != nil {
		return stop, err
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second) // pace: between the steps of the clock
		defer tick.Stop()
		for offset := -5 * time.Second; ; offset = -5*time.Second - offset {
			select {
			case <-end:
				return
			case <-tick.C:
				_ = clock.set(offset)
			}
		}
	}()
	return func() { close(end); <-ended }, nil
}

// findFaketime finds the library libfaketime, beside the binaries or on the machine.
func findFaketime(binaries string) (string, error) {
	for _, root := range []string{unpacked(binaries), "/"} {
		for _, pattern := range []string{
			"usr/lib/*/faketime/libfaketime.so.1", "lib/*/faketime/libfaketime.so.1",
			"usr/lib/faketime/libfaketime.so.1", "usr/lib64/faketime/libfaketime.so.1",
		} {
			found, _ := filepath.Glob(filepath.Join(root, pattern)) // the patterns are valid
			if len(found) > 0 {
				return found[0], nil
			}
		}
	}
	return "", errors.New("stepping a server's clock needs libfaketime (Debian: apt-get install faketime)")
}

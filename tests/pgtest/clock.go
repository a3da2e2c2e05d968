package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Clock is a cluster's clock, which a test can step while the server runs. The
// machine's own goes on, and so do the server's timeouts.
type Clock struct{ clockFile }

// NewClock gives a cluster that does not run yet a clock of its own. It takes
// libfaketime; without it the test fails and says how to get it.
func (c *Cluster) NewClock(t testing.TB) *Clock {
	t.Helper()
	library, err := findFaketime(c.binaries)
	if err != nil {
		t.Fatal(err)
	}
	clock := &Clock{clockFile(filepath.Join(c.Dir, "clock"))}
	clock.Set(t, 0)
	c.environment = append(c.environment, clock.environment(library)...)
	return clock
}

// Set steps the clock: from now on it is the machine's plus offset, in every
// connection.
func (c *Clock) Set(t testing.TB, offset time.Duration) {
	t.Helper()
	if err := c.set(offset); err != nil {
		t.Fatal(err)
	}
}

// Stepping is what the clock of the tests' shared server does.
type Stepping string

// StepsBack has the clock go 5 s back after a second, and forward again a second
// later, and so on, as if clients went from one server to another whose clock is behind.
const StepsBack Stepping = "steps-back"

// fake has a server, before its start, run with such a clock. stop ends what it
// takes.
func (s Stepping) fake(server *exec.Cmd, binaries, dir string) (stop func(), err error) {
	if s == "" {
		return func() {}, nil
	}
	if s != StepsBack {
		return nil, fmt.Errorf("%q is no clock: it must be empty or %q", s, StepsBack)
	}
	library, err := findFaketime(binaries)
	if err != nil {
		return nil, err
	}
	file := clockFile(filepath.Join(dir, "clock"))
	if err := file.set(0); err != nil {
		return nil, err
	}
	server.Env = append(server.Env, file.environment(library)...)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for offset := -5 * time.Second; ; offset = -5*time.Second - offset {
			select {
			case <-end:
				return
			case <-tick.C:
				_ = file.set(offset)
			}
		}
	}()
	return func() { close(end); <-ended }, nil
}

// clockFile is the path of the file that tells a server's clock how far it is off.
type clockFile string

// set has the file say so in one step: a reader never finds half of it.
func (f clockFile) set(offset time.Duration) error {
	next := string(f) + ".new"
	if err := os.WriteFile(next, fmt.Appendf(nil, "%+f\n", offset.Seconds()), 0o644); err != nil {
		return err
	}
	return os.Rename(next, string(f))
}

func (f clockFile) environment(library string) []string {
	return []string{
		"LD_PRELOAD=" + library,
		"FAKETIME_TIMESTAMP_FILE=" + string(f),
		"FAKETIME_NO_CACHE=1", // or a step would be seen 10 s later
		// What waits with a timeout is to wait as long; older versions of the library
		// read the second name.
		"FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1",
		"FAKETIME_DONT_RESET=1", // the server's children go on with its clock
		"NO_FAKE_STAT=1",
	}
}

// findFaketime finds libfaketime, which a process loads first: beside the binaries,
// or on the machine.
func findFaketime(binaries string) (string, error) {
	for _, root := range []string{unpacked(binaries), "/"} {
		for _, pattern := range []string{
			"usr/lib/*/faketime/libfaketime.so.1", "lib/*/faketime/libfaketime.so.1",
			"usr/lib/faketime/libfaketime.so.1", "usr/lib64/faketime/libfaketime.so.1",
		} {
			found, _ := filepath.Glob(filepath.Join(root, pattern)) // the pattern is well formed
			if len(found) > 0 {
				return found[0], nil
			}
		}
	}
	return "", errors.New("a server's clock steps with libfaketime, which is not there (Debian: apt-get install faketime)")
}

package pgtest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Clock is a cluster's clock, which a test can step while the server runs. The
// machine's own goes on, and so do the server's timeouts.
type Clock struct {
	cluster *Cluster
	file    string
}

// NewClock gives a cluster that does not run yet a clock of its own. It takes
// libfaketime; without it the test fails and says how to get it.
func (c *Cluster) NewClock(t testing.TB) *Clock {
	t.Helper()
	library := findFaketime()
	if library == "" {
		t.Fatal("this test steps a server's clock: install libfaketime (Debian: apt-get install faketime)")
	}
	clock := &Clock{cluster: c, file: filepath.Join(c.Dir, "clock")}
	clock.Set(t, 0)
	c.environment = append(c.environment,
		"LD_PRELOAD="+library,
		"FAKETIME_TIMESTAMP_FILE="+clock.file,
		"FAKETIME_NO_CACHE=1",            // or a step would be seen 10 s later
		"FAKETIME_DONT_FAKE_MONOTONIC=1", // what waits with a timeout is to wait as long
		"FAKETIME_DONT_RESET=1",          // the server's children go on with its clock
	)
	return clock
}

// Set steps the clock: from now on it is the machine's plus offset, in every
// connection.
func (k *Clock) Set(t testing.TB, offset time.Duration) {
	t.Helper()
	// Renamed into place: the server reads the file at any time.
	written := k.cluster.WriteFile(t, "clock.new", fmt.Sprintf("%+f\n", offset.Seconds()))
	if err := os.Rename(written, k.file); err != nil {
		t.Fatal(err)
	}
}

// findFaketime returns the path of the library that a process loads first, or
// nothing. It is the machine's: the server runs with the machine's binaries.
func findFaketime() string {
	for _, pattern := range []string{
		"/usr/lib/*/faketime/libfaketime.so.1", "/usr/lib/faketime/libfaketime.so.1",
		"/usr/lib64/faketime/libfaketime.so.1", "/usr/local/lib/faketime/libfaketime.so.1",
	} {
		if found, err := filepath.Glob(pattern); err == nil && len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

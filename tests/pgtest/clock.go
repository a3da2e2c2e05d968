package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Clock is what the clock of a server does.
type Clock string

// ClockSteps has the clock go 5 s back after a second, and forward again a second
// later, and so on, as if clients went from one server to another whose clock is behind.
const ClockSteps Clock = "steps"

// fake has a server, before its start, run with such a clock. stop ends what it
// takes.
func (c Clock) fake(server *exec.Cmd, binaries, dir string) (stop func(), err error) {
	if c == "" {
		return func() {}, nil
	}
	if c != ClockSteps {
		return nil, fmt.Errorf("%q is no clock: it must be empty or %q", c, ClockSteps)
	}
	library, err := fakeTime(binaries)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "clock")
	set := func(offset string) error {
		// In one step: a reader never finds half of it.
		if err := os.WriteFile(file+".new", []byte(offset+"\n"), 0o644); err != nil {
			return err
		}
		return os.Rename(file+".new", file)
	}
	if err := set("+0"); err != nil {
		return nil, err
	}
	server.Env = append(server.Env, "LD_PRELOAD="+library, "FAKETIME_TIMESTAMP_FILE="+file,
		"FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1", "NO_FAKE_STAT=1")
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for offsets, i := []string{"-5", "+0"}, 0; ; i++ {
			select {
			case <-end:
				return
			case <-tick.C:
				_ = set(offsets[i%2])
			}
		}
	}()
	return func() { close(end); <-ended }, nil
}

// fakeTime finds libfaketime beside the binaries or on the machine.
func fakeTime(binaries string) (string, error) {
	var found []string
	for _, root := range []string{unpacked(binaries), "/"} {
		for _, library := range []string{"usr/lib/*/faketime/libfaketime.so.1", "lib/*/faketime/libfaketime.so.1"} {
			here, _ := filepath.Glob(filepath.Join(root, library)) // the pattern is well formed
			found = append(found, here...)
		}
	}
	if len(found) == 0 {
		return "", fmt.Errorf("a server's clock steps with libfaketime, which is not there (Debian: apt-get install libfaketime)")
	}
	return found[0], nil
}

// unpacked is the root that binaries of image/binaries.sh stand in.
func unpacked(binaries string) string {
	root, _, found := strings.Cut(binaries, "/usr/lib/postgresql/")
	if !found {
		return "/"
	}
	return root + "/"
}

// environment is what programs of PostgreSQL are run with: the locales that fit
// their C library.
func environment(binaries string) []string {
	list := os.Environ()
	if root := unpacked(binaries); root != "/" {
		list = append(list, "LOCPATH="+filepath.Join(root, "usr/lib/locale"))
	}
	return list
}

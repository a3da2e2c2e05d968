package faults

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-df90f812/agentstore/internal/await"
)

// disk is a server whose disk can be full. Its tables and its write-ahead log are
// each on a small file system in memory.
//
// If no file system can be mounted (in a container without the privilege, which loop
// devices and quotas need, too), the sizes of the server's files are limited instead:
// the kernel then refuses the same writes, with another error number.
type disk struct {
	stage     *stage
	data, wal string // their mount points
	mounted   bool
}

func newDisk(t *testing.T) *disk {
	t.Helper()
	cluster := newCluster(t, "min_wal_size=2MB", "max_wal_size=8MB")
	d := &disk{data: filepath.Join(cluster.Dir, "tables"), wal: filepath.Join(cluster.Dir, "wal")}
	if err := mountable(cluster.Dir); err != nil {
		t.Logf("cannot mount a file system (%v): limiting the size of files instead", err)
		d.stage = newStage(t, cluster)
		return d
	}
	d.mounted = true
	cluster.Stop(t, syscall.SIGINT)
	owner, err := os.Stat(cluster.Data())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cluster.Stop(t, syscall.SIGINT)
		for _, dir := range []string{d.data, d.wal} {
			if err := unix.Unmount(dir, 0); err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: not mounted
				t.Errorf("unmount %s: %v", dir, err)
			}
		}
	})
	for _, dir := range []string{d.data, d.wal} {
		mount(t, dir, owner)
	}
	old := filepath.Join(cluster.Data(), "pg_wal")
	if err := os.CopyFS(filepath.Join(d.wal, "pg_wal"), os.DirFS(old)); err != nil {
		t.Fatal(err)
	}
	if err := chownAll(d.wal, owner); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(old); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(d.wal, "pg_wal"), old); err != nil {
		t.Fatal(err)
	}
	cluster.Start(t)
	execute(t, cluster.URL("postgres"), "CREATE TABLESPACE small LOCATION '"+d.data+"'")
	d.stage = newStage(t, cluster)
	for _, table := range []string{"messages", "session_counters", "sessions"} {
		execute(t, d.stage.url, "ALTER TABLE "+table+" SET TABLESPACE small")
	}
	return d
}

const diskSize = "64m"

// noMountEnv makes the tests work without a mount, so that both ways can be tested on
// one machine.
const noMountEnv = "AGENTSTORE_FAULTS_NO_MOUNT"

// mountable returns the reason why no file system can be mounted, or nil.
func mountable(dir string) error {
	if os.Getenv(noMountEnv) != "" {
		return errors.New(noMountEnv + " is set")
	}
	place := filepath.Join(dir, "try")
	if err := os.Mkdir(place, 0o700); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", place, "tmpfs", 0, "size=1m"); err != nil {
		return errors.Join(err, os.Remove(place))
	}
	return errors.Join(unix.Unmount(place, 0), os.Remove(place))
}

func mount(t *testing.T, dir string, owner os.FileInfo) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+diskSize); err != nil {
		t.Fatalf("mount a small file system: %v", err)
	}
	if err := chownAll(dir, owner); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

// chownAll changes a tree's owner to that of a file, with the modes that the server
// requires.
func chownAll(root string, owner os.FileInfo) error {
	to := owner.Sys().(*syscall.Stat_t)
	return filepath.Walk(root, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		mode := os.FileMode(0o600)
		if info.IsDir() {
			mode = 0o700
		}
		return errors.Join(os.Chmod(path, mode), os.Lchown(path, int(to.Uid), int(to.Gid)))
	})
}

func (d *disk) faults() []fault {
	return []fault{
		// The server continues, and refuses what needs room.
		{name: "disk full (tables)", times: 20, short: 1, strike: func(t *testing.T, s *scene) func() {
			if !d.mounted {
				// Segments of the log are 1 MB large; tables soon have more.
				empty := limitFiles(t, s, "1048576")
				s.awaitSeen(t, fileTooLarge)
				return empty
			}
			empty := fill(t, d.data)
			s.awaitSeen(t, diskFull)
			return empty
		}},
		// The server panics, cannot recover without room, and stops.
		{name: "disk full (write-ahead log)", times: 20, short: 1, strike: func(t *testing.T, s *scene) func() {
			conn := connect(t, s.url)
			defer disconnect(conn)
			var empty func()
			if d.mounted {
				empty = fill(t, d.wal)
			} else {
				empty = limitFiles(t, s, "65536")
			}
			await.For(t, "the server has ended, its disk being full", func() bool {
				_, _ = conn.Exec(t.Context(), "SELECT pg_switch_wal()") // it needs another file sooner
				return !s.cluster.Running()
			})
			return func() {
				empty()
				s.cluster.Start(t)
			}
		}},
	}
}

// limitFiles limits the size of all files of the server's processes until the
// returned function is called. The command runs as their user, which needs no further
// privileges for that.
func limitFiles(t *testing.T, s *scene, size string) (lift func()) {
	t.Helper()
	postmaster := strconv.Itoa(s.cluster.PID())
	limit := func(pid, size string) {
		command := s.cluster.Command(context.Background(), "prlimit", "--pid", pid, "--fsize="+size+":")
		output, err := command.CombinedOutput()
		if err != nil && syscall.Kill(s.cluster.PID(), 0) == nil && !strings.Contains(string(output), "No such process") {
			t.Errorf("prlimit: %v: %s", err, output)
		}
	}
	limitAll := func(size string) {
		// The postmaster first, because later processes inherit its limit.
		limit(postmaster, size)
		children, err := os.ReadFile("/proc/" + postmaster + "/task/" + postmaster + "/children")
		if err != nil {
			return // it has ended
		}
		for pid := range strings.FieldsSeq(string(children)) {
			limit(pid, size)
		}
	}
	limitAll(size)
	return func() {
		if s.cluster.Running() {
			limitAll("unlimited")
		}
	}
}

// fill takes all free room of a file system, now and later, until the returned
// function is called.
func fill(t *testing.T, dir string) (empty func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			for _, size := range []int{1 << 20, 4096} {
				for buffer := make([]byte, size); err == nil; {
					_, err = file.Write(buffer)
				}
				err = nil
			}
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond): // pace: until it takes what has become free
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
		if err := errors.Join(file.Close(), os.Remove(path)); err != nil {
			t.Error(err)
		}
	}
}

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
)

// disk is a server whose disk can be full: its tables and its write-ahead log
// stand each on a small file system of its own, made in memory.
//
// Where none may be mounted (a container without the right to it; loop devices
// and quotas need the same right), the server's processes are limited in the
// size of their files instead: the write that a full disk refuses is refused
// too, by the same kernel, with another error number.
type disk struct {
	stage     *stage
	data, wal string // where they are mounted
	mounted   bool
}

func newDisk(t *testing.T) *disk {
	t.Helper()
	cluster := newCluster(t, "min_wal_size=2MB", "max_wal_size=8MB")
	d := &disk{data: filepath.Join(cluster.Dir, "tables"), wal: filepath.Join(cluster.Dir, "wal")}
	if err := mountable(cluster.Dir); err != nil {
		t.Logf("no file system can be mounted (%v): the size of files is limited instead", err)
		d.stage = newStage(t, cluster)
		return d
	}
	d.mounted = true
	cluster.Stop(t, syscall.SIGINT)
	owner, err := os.Stat(cluster.Data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cluster.Running() {
			cluster.Stop(t, syscall.SIGINT)
		}
		for _, dir := range []string{d.data, d.wal} {
			if err := unix.Unmount(dir, 0); err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: not mounted
				t.Errorf("unmount %s: %v", dir, err)
			}
		}
	})
	for _, dir := range []string{d.data, d.wal} {
		mount(t, dir, owner)
	}
	old := filepath.Join(cluster.Data, "pg_wal")
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
	execute(t, cluster.URL, "CREATE TABLESPACE small LOCATION '"+d.data+"'")
	d.stage = newStage(t, cluster)
	for _, table := range []string{"messages", "session_counters", "sessions"} {
		execute(t, d.stage.url, "ALTER TABLE "+table+" SET TABLESPACE small")
	}
	return d
}

const diskSize = "64m"

// noMountEnv makes the tests do without a mount, so that both ways can be tried
// on one machine.
const noMountEnv = "AGENTSTORE_FAULTS_NO_MOUNT"

// mountable reports what keeps us from mounting a file system.
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

// chownAll gives a tree to the owner of a file, with the modes that the server
// wants.
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
		// The server goes on, and refuses what needs room.
		{name: "disk full (tables)", times: 20, short: 1, strike: func(t *testing.T, s *scene) func() {
			if !d.mounted {
				// Segments of the log have 1 MB; tables soon have more.
				empty := limitFiles(t, s, "1048576")
				s.awaitSeen(t, fileTooLarge, recoveryBound)
				return empty
			}
			empty := fill(t, d.data)
			s.awaitSeen(t, diskFull, recoveryBound)
			return empty
		}},
		// The server panics, cannot recover without room, and gives up.
		{name: "disk full (write-ahead log)", times: 20, short: 1, strike: func(t *testing.T, s *scene) func() {
			var empty func()
			if d.mounted {
				empty = fill(t, d.wal)
			} else {
				empty = limitFiles(t, s, "65536")
			}
			await(t, recoveryBound, "the server goes on with a full disk", func() bool { return !s.cluster.Running() })
			return func() {
				empty()
				s.cluster.Start(t)
			}
		}},
	}
}

// limitFiles refuses the server's processes to write behind a size in any file,
// until the returned function is called. The command is run as their user, who
// may do that without further rights.
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
		// The postmaster first: who is born later inherits its limit.
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

// fill takes all room of a file system, and what becomes free of it, until the
// returned function is called.
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
			case <-time.After(time.Millisecond):
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

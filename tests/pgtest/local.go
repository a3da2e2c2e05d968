package pgtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// startLocal makes a cluster with the machine's PostgreSQL binaries. As root,
// which PostgreSQL refuses to run as, it becomes the user postgres or nobody.
func startLocal(ctx context.Context, options Options) (_ *Server, err error) {
	binaries, err := findBinaries()
	if err != nil {
		return nil, err
	}
	credential, err := serverUser()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "agentstore-test-")
	if err != nil {
		return nil, err
	}
	remove := func() { _ = os.RemoveAll(dir) }
	defer func() {
		if err != nil {
			remove()
		}
	}()
	if credential != nil {
		if err := os.Chown(dir, int(credential.Uid), int(credential.Gid)); err != nil {
			return nil, err
		}
	}
	attributes := &syscall.SysProcAttr{Credential: credential}
	data, passwordFile, password := filepath.Join(dir, "data"), filepath.Join(dir, "password"), rand.Text()
	if err := os.WriteFile(passwordFile, []byte(password+"\n"), 0o644); err != nil {
		return nil, err
	}
	initdb := exec.CommandContext(ctx, filepath.Join(binaries, "initdb"),
		"--pgdata="+data, "--username=postgres", "--pwfile="+passwordFile,
		"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync")
	initdb.SysProcAttr, initdb.Dir = attributes, dir
	if output, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, bytes.TrimSpace(output))
	}

	port, err := freePort()
	if err != nil {
		return nil, err
	}
	settings := []string{
		"-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=" + dir,
		"-c", "max_connections=" + maxConnections,
	}
	if !options.Durable {
		settings = append(settings, "-c", "fsync=off")
	}
	for _, setting := range setting().server() {
		settings = append(settings, "-c", setting)
	}
	var log bytes.Buffer
	server := exec.Command(filepath.Join(binaries, "postgres"), settings...)
	// A server whose tests were killed ends too.
	server.SysProcAttr = &syscall.SysProcAttr{Credential: credential, Pdeathsig: syscall.SIGINT}
	server.Dir, server.Stdout, server.Stderr = dir, &log, &log
	server.Env = environment(binaries)
	stopClock, err := setting().Clock.fake(server, binaries, dir)
	if err != nil {
		return nil, err
	}
	if err := server.Start(); err != nil {
		stopClock()
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		_ = server.Wait()
		close(ended)
	}()
	stop := func() {
		_ = server.Process.Signal(syscall.SIGINT) // fast shutdown
		select {
		case <-ended:
		case <-time.After(15 * time.Second):
			_ = server.Process.Kill()
			<-ended
		}
		stopClock()
		remove()
	}
	databaseURL := fmt.Sprintf("postgres://postgres:%s@127.0.0.1:%s/postgres?sslmode=disable", password, port)
	if err := awaitReady(ctx, databaseURL, ended); err != nil {
		stop()
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(log.Bytes()))
	}
	return &Server{URL: databaseURL, Description: "a cluster of the binaries in " + binaries, stop: stop}, nil
}

// findBinaries finds the PostgreSQL server that the environment names, or the
// newest on the machine.
func findBinaries() (string, error) {
	if named := os.Getenv(binariesEnv); named != "" {
		if _, err := os.Stat(filepath.Join(named, "postgres")); err != nil {
			return "", fmt.Errorf("%s: %w", binariesEnv, err)
		}
		return named, nil
	}
	found, err := filepath.Glob(filepath.Join(debianDir, "*/bin/postgres"))
	if err != nil {
		return "", err
	}
	slices.SortFunc(found, func(a, b string) int { return version(a) - version(b) })
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1]), nil
	}
	onPath, err := exec.LookPath("postgres")
	if err != nil {
		return "", errors.New("no postgres binary in " + debianDir + "/*/bin or PATH")
	}
	onPath, err = filepath.EvalSymlinks(onPath)
	return filepath.Dir(onPath), err
}

// debianDir is where Debian's packages put the binaries; a variable for tests.
var debianDir = "/usr/lib/postgresql"

// version is 15 for /usr/lib/postgresql/15/bin/postgres.
func version(path string) int {
	number, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return number
}

// serverUser is whom a server is run as: nil for the caller itself.
func serverUser() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(found.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(found.Gid, 10, 32)
		if uidErr == nil && gidErr == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("running as root, and there is no user postgres or nobody to run a server as")
}

func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = listener.Close() }()
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port), nil
}

func awaitReady(ctx context.Context, databaseURL string, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, databaseURL)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ended:
			return errors.New("postgres ended at once")
		case <-ctx.Done():
			return fmt.Errorf("postgres does not answer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// versions are the supported versions (docs/operations.md).
var versions = []string{"13", "14", "15", "16", "17", "18"}

// server is a version of PostgreSQL, as binaries or as an image.
type server struct {
	version string
	// binaries is the directory of initdb and postgres. Empty: there is only an image.
	binaries string
	image    string
}

// environment returns the variables with which pgtest uses this server.
func (s server) environment() []string {
	if s.binaries == "" {
		return []string{"AGENTSTORE_TEST_SERVER=container", "AGENTSTORE_TEST_IMAGE=" + s.image}
	}
	return []string{"AGENTSTORE_TEST_SERVER=local", "AGENTSTORE_TEST_BINARIES=" + s.binaries}
}

// findServers gets each version, oldest first, as binaries of Debian packages or else as
// an image; in the short form only the oldest and the newest. missing says why others
// are not available.
func findServers(ctx context.Context, short bool) (found []server, missing []string) {
	order := versions
	if short {
		order = []string{versions[0], versions[len(versions)-1]}
	}
	for _, version := range order {
		begin := time.Now()
		s, err := findServer(ctx, version)
		if err != nil {
			missing = append(missing, fmt.Sprintf("PostgreSQL %s: %v", version, err))
			continue
		}
		fmt.Fprintf(os.Stderr, "matrix: PostgreSQL %s: %s (%v)\n", version, s.binaries+s.image, time.Since(begin).Round(time.Second))
		found = append(found, s)
	}
	return found, missing
}

func findServer(ctx context.Context, version string) (server, error) {
	unpack := exec.CommandContext(ctx, "bash", "tests/image/binaries.sh", version)
	var stdout, stderr bytes.Buffer
	unpack.Stdout, unpack.Stderr = &stdout, &stderr
	if err := unpack.Run(); err == nil {
		return server{version: version, binaries: strings.TrimSpace(stdout.String())}, nil
	}
	reason := lastLine(stderr.String())
	image := "postgres:" + version + "-alpine"
	if exec.CommandContext(ctx, "docker", "image", "inspect", image).Run() == nil {
		return server{version: version, image: image}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if output, err := exec.CommandContext(ctx, "docker", "pull", "--quiet", image).CombinedOutput(); err != nil {
		return server{}, fmt.Errorf("%s; image %s: %s", reason, image, lastLine(string(output)))
	}
	return server{version: version, image: image}, nil
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

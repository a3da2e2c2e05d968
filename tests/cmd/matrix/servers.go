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

// versions are those that the library supports: docs/operations.md.
var versions = []string{"13", "14", "15", "16", "17", "18"}

// server is a version of PostgreSQL that can be had.
type server struct {
	version string
	// binaries is the directory of initdb and postgres; empty where there is
	// only an image.
	binaries string
	image    string
}

// environment has pgtest take this server.
func (s server) environment() []string {
	if s.binaries == "" {
		return []string{"AGENTSTORE_TEST_SERVER=container", "AGENTSTORE_TEST_IMAGE=" + s.image}
	}
	return []string{"AGENTSTORE_TEST_SERVER=local", "AGENTSTORE_TEST_BINARIES=" + s.binaries}
}

// findServers gets the versions, oldest first: binaries of Debian packages, or
// else an image. In short the oldest and the newest are enough. missing says why
// others cannot be had.
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
	unpack := exec.CommandContext(ctx, "bash", "image/binaries.sh", version)
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

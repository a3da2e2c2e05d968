package pgtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// containerCommand starts a container, and removes it when its standard input ends.
const containerCommand = "github.com/seed-df90f812/agentstore/tests/cmd/container"

// startContainer starts a server in a container, by a process of its own: see tests/cmd/container.
func startContainer(ctx context.Context, options Options) (*Server, error) {
	if setting().Clock != "" {
		return nil, errors.New("a container's clock is the machine's")
	}
	if !mayHaveDocker() {
		return nil, errors.New("no Docker: DOCKER_HOST is not set, and there is no socket")
	}
	arguments := []string{"run", containerCommand}
	if options.Durable {
		arguments = append(arguments, "-durable")
	} else if !Full() { // whose databases are small, and many
		arguments = append(arguments, "-memory")
	}
	arguments = append(arguments, "max_connections="+maxConnections)
	// The process ends with its input, and has to outlive the context to remove the container.
	command := exec.CommandContext(context.WithoutCancel(ctx), "go", append(arguments, setting().server()...)...)
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	stop := func() {
		_ = input.Close()
		if err := command.Wait(); err != nil {
			options.Logf("pgtest: the container's process: %v", err)
		}
	}
	var answer struct{ URL, Image, Error string }
	if err := json.NewDecoder(output).Decode(&answer); err != nil {
		stop()
		return nil, fmt.Errorf("the container's process said nothing: %w", err)
	}
	if answer.Error != "" {
		_ = input.Close()
		_ = command.Wait()
		return nil, errors.New(answer.Error)
	}
	return &Server{URL: answer.URL, Description: "a container of image " + answer.Image, stop: stop}, nil
}

// mayHaveDocker looks whether there is a Docker, before what talks to it is compiled.
func mayHaveDocker() bool {
	home, _ := os.UserHomeDir()
	for _, file := range []string{
		"/var/run/docker.sock",
		filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "docker.sock"),
		filepath.Join(home, ".docker/run/docker.sock"),
		filepath.Join(home, ".docker/desktop/docker.sock"),
		filepath.Join(home, ".testcontainers.properties"),
	} {
		if _, err := os.Stat(file); err == nil {
			return true
		}
	}
	return os.Getenv("DOCKER_HOST") != ""
}

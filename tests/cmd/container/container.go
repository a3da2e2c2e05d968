package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/modules/postgres"
)

// imageEnv names the image, instead of those below.
const imageEnv = "AGENTSTORE_TEST_IMAGE"

const (
	// officialImage is used if a registry can be reached.
	officialImage = "postgres:15-alpine"
	// localImage is what make image builds.
	localImage = "agentstore-postgres:15"
	// ownerLabel is the label with the id of the process that a container belongs to.
	ownerLabel = "agentstore.test.owner"
	// pullTimeout bounds the start of a container, which may have to pull its image
	// first.
	pullTimeout = 10 * time.Minute
)

// postgresContainer is a running server in a container.
type postgresContainer struct {
	databaseURL, image string
	stop               func() error
}

// start starts a container, with settings of its server.
func start(ctx context.Context, durable, inMemory bool, settings []string) (*postgresContainer, error) {
	setDefault("TESTCONTAINERS_RYUK_DISABLED", "true") // its image needs a registry; removeOrphans does its work
	if _, err := os.Stat("/.dockerenv"); err == nil {
		// Published ports are on this machine's loopback even if it is a container
		// itself.
		setDefault("TESTCONTAINERS_HOST_OVERRIDE", "127.0.0.1")
	}
	tclog.SetDefault(tclog.NewNoopLogger()) // it would print details of the machine at each run
	ctx, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	docker, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return nil, fmt.Errorf("no Docker: %w", err)
	}
	defer func() { _ = docker.Close() }()
	removeOrphans(ctx, docker)

	image := chooseImage(ctx, docker)
	password := rand.Text()
	if durable {
		settings = append(settings, "fsync=on")
	}
	var arguments []string
	for _, setting := range settings {
		arguments = append(arguments, "-c", setting)
	}
	started, err := postgres.Run(ctx, image,
		postgres.WithUsername("postgres"),
		postgres.WithDatabase("postgres"),
		postgres.WithPassword(password),
		testcontainers.WithCmdArgs(arguments...),
		testcontainers.WithLabels(map[string]string{ownerLabel: strconv.Itoa(os.Getpid())}),
		testcontainers.WithEnv(map[string]string{"PGDATA": dataDir}), // also where an image has another one
		testcontainers.WithHostConfigModifier(func(config *container.HostConfig) {
			onLoopback(config)
			if inMemory {
				config.Tmpfs = map[string]string{dataDir: ""}
			}
		}),
		postgres.BasicWaitStrategies(),
	)
	stop := func() error {
		if started == nil {
			return nil
		}
		return started.Terminate(context.WithoutCancel(ctx), testcontainers.StopTimeout(10*time.Second))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("image %s: %w", image, err), stop())
	}
	databaseURL, err := started.ConnectionString(ctx, "sslmode=disable")
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	return &postgresContainer{databaseURL, image, stop}, nil
}

func setDefault(name, value string) {
	if os.Getenv(name) == "" {
		_ = os.Setenv(name, value)
	}
}

// dataDir is where a container's server keeps its databases.
const dataDir = "/var/lib/postgresql/data"

// onLoopback publishes the server's port for this machine only.
func onLoopback(config *container.HostConfig) {
	config.PortBindings = network.PortMap{
		network.MustParsePort("5432/tcp"): {{HostIP: netip.MustParseAddr("127.0.0.1")}},
	}
}

// chooseImage prefers an image that is on the machine, so that no test waits for
// a registry that does not answer.
func chooseImage(ctx context.Context, docker *testcontainers.DockerClient) string {
	if image := os.Getenv(imageEnv); image != "" {
		return image
	}
	for _, image := range []string{officialImage, localImage} {
		if _, err := docker.ImageInspect(ctx, image); err == nil {
			return image
		}
	}
	return officialImage
}

// removeOrphans removes the containers of test processes that were killed.
func removeOrphans(ctx context.Context, docker *testcontainers.DockerClient) {
	found, err := docker.ContainerList(ctx, client.ContainerListOptions{
		All: true, Filters: make(client.Filters).Add("label", ownerLabel),
	})
	if err != nil {
		return
	}
	for _, c := range found.Items {
		owner, err := strconv.Atoi(c.Labels[ownerLabel])
		if err != nil || !errors.Is(syscall.Kill(owner, 0), syscall.ESRCH) {
			continue
		}
		_, _ = docker.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	}
}

//go:build citus

// Package citus tests the store on three nodes of Citus: make test/citus.
//
// Citus refuses a VOLATILE function in an UPDATE, a STABLE one with columns there, and a table in a subselect of
// INSERT … SELECT: use a materialized CTE. It crashes where SET takes a bare array[…]. It hands a statement to the node
// only if the statement reads a table, and changes rows only at the top; an INSERT … SELECT … ON CONFLICT must also
// leave out the clock.
package citus

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/moby/moby/api/types/container"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/postgres"
	"github.com/testcontainers/testcontainers-go/network"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

const (
	urlsEnv  = "AGENTSTORE_TEST_CITUS_URLS"
	imageEnv = "AGENTSTORE_TEST_CITUS_IMAGE"
	// publishedImage is its maker's.
	publishedImage = "citusdata/citus:13.2"
	database       = "agentstore_citus"
)

const noCitus = `no Citus to test on: %v
Any one of these will do:
  - set ` + urlsEnv + ` to the URLs of three nodes, the coordinator first, with commas between them: a database that has the extension,
    the nodes added, and superusers
  - install the extension beside PostgreSQL's binaries (make install of its source)
  - start Docker, where ` + imageEnv + ` (otherwise ` + publishedImage + `) can be pulled`

// nodes are the coordinator and the workers.
type nodes struct {
	coordinator string // URL
	workers     []string
	// clusters are the workers, if they are processes of the test's.
	clusters []*pgtest.Cluster
}

// settings are what each node needs. With wal_level logical the engine moves schemas beside writers.
var settings = []string{
	"shared_preload_libraries=citus", "wal_level=logical", "max_prepared_transactions=200", "max_connections=200", "citus.node_conninfo=sslmode=disable",
}

func start(t testing.TB) nodes {
	t.Helper()
	if given := os.Getenv(urlsEnv); given != "" {
		urls := strings.Split(given, ",")
		if len(urls) != 3 {
			t.Fatalf("%s has %d URLs, want 3", urlsEnv, len(urls))
		}
		prepare(t, urls[0])
		return nodes{coordinator: urls[0], workers: urls[1:]}
	}
	if os.Getenv(imageEnv) == "" && isInstalled() {
		return startClusters(t)
	}
	return startContainers(t)
}

// isInstalled reports whether the binaries have the extension.
func isInstalled() bool {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/lib/citus.so")
	if output, err := exec.Command("pg_config", "--pkglibdir").Output(); err == nil && len(found) == 0 {
		found, _ = filepath.Glob(filepath.Join(strings.TrimSpace(string(output)), "citus.so"))
	}
	return len(found) > 0
}

func startClusters(t testing.TB) nodes {
	t.Helper()
	var all nodes
	var hosts []string
	for i := range 3 {
		cluster := pgtest.NewCluster(t, "--auth=trust")
		cluster.Start(t, settings...)
		create(t, cluster.URL("postgres"))
		hosts = append(hosts, cluster.URL(database))
		if i > 0 {
			all.clusters = append(all.clusters, cluster)
		}
	}
	all.coordinator, all.workers = hosts[0], hosts[1:]
	join(t, all.coordinator, hosts)
	return all
}

func startContainers(t testing.TB) nodes {
	t.Helper()
	image := os.Getenv(imageEnv)
	if image == "" {
		image = publishedImage
	}
	ctx := t.Context()
	t.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
	net, err := network.New(ctx)
	if err != nil {
		t.Fatalf(noCitus, err)
	}
	t.Cleanup(func() { _ = net.Remove(context.WithoutCancel(ctx)) })
	var urls, inside []string
	for range 3 {
		command := []string{}
		for _, one := range settings {
			command = append(command, "-c", one)
		}
		started, err := postgres.Run(ctx, image, postgres.WithUsername("postgres"), postgres.WithDatabase(database), postgres.WithPassword("postgres"),
			testcontainers.WithCmdArgs(command...), network.WithNetwork(nil, net), postgres.BasicWaitStrategies(),
			testcontainers.WithEnv(map[string]string{"POSTGRES_HOST_AUTH_METHOD": "trust"}),
			testcontainers.WithHostConfigModifier(func(config *container.HostConfig) { config.AutoRemove = true }))
		if started != nil {
			t.Cleanup(func() { _ = started.Terminate(context.WithoutCancel(ctx)) })
		}
		if err != nil {
			t.Fatalf(noCitus, err)
		}
		at, err := started.ConnectionString(ctx, "sslmode=disable")
		if err != nil {
			t.Fatal(err)
		}
		ip, err := started.ContainerIP(ctx)
		if err != nil {
			t.Fatal(err)
		}
		run(t, at, "CREATE EXTENSION IF NOT EXISTS citus")
		urls, inside = append(urls, at), append(inside, "postgres://postgres@"+ip+":5432/"+database)
	}
	join(t, urls[0], inside)
	return nodes{coordinator: urls[0], workers: urls[1:]}
}

func create(t testing.TB, server string) {
	t.Helper()
	run(t, server, "CREATE DATABASE "+database)
	run(t, strings.Replace(server, "/postgres?", "/"+database+"?", 1), "CREATE EXTENSION citus")
}

// join makes the first node the coordinator of the others.
func join(t testing.TB, coordinator string, all []string) {
	t.Helper()
	for i, one := range all {
		at, err := url.Parse(one)
		if err != nil {
			t.Fatal(err)
		}
		add := "citus_add_node"
		if i == 0 {
			add = "citus_set_coordinator_host"
		}
		run(t, coordinator, fmt.Sprintf("SELECT %s('%s', %s)", add, at.Hostname(), at.Port()))
	}
	prepare(t, coordinator)
}

// prepare sets what Distribute asks for.
func prepare(t testing.TB, coordinator string) {
	t.Helper()
	config, err := pgx.ParseConfig(coordinator)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"citus.enable_unsafe_triggers", "citus.allow_nested_distributed_execution"} {
		run(t, coordinator, "ALTER DATABASE "+pgx.Identifier{config.Database}.Sanitize()+" SET "+name+" = on")
	}
}

func run(t testing.TB, databaseURL, sql string, into ...any) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // also at the end
	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if len(into) > 0 {
		err = conn.QueryRow(ctx, sql).Scan(into...)
	} else {
		_, err = conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	}
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		t.Fatalf("%s: %v", sql, err)
	}
}

// hasHost reports whether a URL is that of a node, which Citus calls host:port.
func hasHost(databaseURL, node string) bool {
	u, err := url.Parse(databaseURL)
	return err == nil && u.Port() == node[strings.LastIndex(node, ":")+1:]
}

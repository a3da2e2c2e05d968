package faults

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// crew are processes of workers. Their leases, whose owners begin with the name of their process, last for an hour: those
// of a process that was killed end at once.
type crew struct {
	variable string
	task     func(databaseURL, name string) any
	url      string
	pool     *pgxpool.Pool
	ctx      context.Context
	running  sync.WaitGroup
	started  int
	commands []*exec.Cmd
	names    []string
}

// startCrew starts processes, which are killed at the test's end.
func startCrew(t *testing.T, databaseURL, variable string, processes int, task func(databaseURL, name string) any) *crew {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &crew{variable: variable, task: task, url: databaseURL, ctx: ctx, pool: pgtest.NewPool(t, databaseURL)}
	c.commands, c.names = make([]*exec.Cmd, processes), make([]string, processes)
	t.Cleanup(func() {
		cancel()
		c.running.Wait()
	})
	for n := range processes {
		c.start(t, n)
	}
	return c
}

func (c *crew) start(t *testing.T, n int) {
	t.Helper()
	c.started++
	c.names[n] = fmt.Sprint("process ", c.started)
	command := pgtest.Again(c.ctx, c.variable, c.task(pgtest.WithParameter(c.url, "application_name", c.names[n]), c.names[n]))
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	c.running.Go(func() { _ = command.Wait() })
	c.commands[n] = command
}

// holds reports whether a process holds a lease.
func (c *crew) holds(t *testing.T, n int) bool {
	t.Helper()
	return pgtest.Value[bool](t, c.pool, "SELECT EXISTS (SELECT FROM leases WHERE owner LIKE $1)", c.names[n]+"/%")
}

// replace kills a process while it holds a lease, and starts another one in its place, unless over returns true. It
// stops it first, so that it does not end its work between the look and the kill.
func (c *crew) replace(t *testing.T, n int, over func() bool) (killed bool) {
	t.Helper()
	process := c.commands[n].Process
	await.For(t, "the process holds a lease, or all is done", func() bool {
		if !c.holds(t, n) {
			return over()
		}
		_ = process.Signal(syscall.SIGSTOP)
		if killed = c.holds(t, n); !killed {
			_ = process.Signal(syscall.SIGCONT)
		}
		return killed
	})
	if !killed {
		return false
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	await.For(t, "the server has ended what the process has sent", func() bool {
		return pgtest.Value[int](t, c.pool, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", c.names[n]) == 0
	})
	pgtest.Exec(t, c.pool, "UPDATE leases SET expires_at = acquired_at WHERE owner LIKE $1", c.names[n]+"/%")
	pgtest.Exec(t, c.pool, `UPDATE plan_claims SET check_at = now() FROM leases AS l
		WHERE l.kind = 'plan' AND l.name = plan_claims.plan_id::text AND l.owner LIKE $1`, c.names[n]+"/%")
	c.start(t, n)
	return true
}

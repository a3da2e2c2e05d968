package a2atest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Three processes serve tasks, whose clients are cut off again and again, and reconnect to
// any of them. In each third of the tasks a process is killed while it executes one. No
// task is lost or made twice, none is completed twice, and no subscriber misses an event or
// gets it again.
func TestKilledNodes(t *testing.T) {
	databaseURL := pgtest.NewDatabase(t)
	tasks := pgtest.Choose(1000, 60)
	n, report := runTasks(t, node{
		Database: pgtest.WithParameter(databaseURL, "pool_max_conns", "8"), Parts: pgtest.Choose(10, 6), Pause: pgtest.Choose(50*time.Millisecond, 5*time.Millisecond),
	}, tasks, pgtest.Choose(8, 12))
	if len(report.lost)+len(report.broken) > 0 {
		t.Errorf("lost %q, broken %q", report.lost, report.broken)
	}
	if n.kills != processes {
		t.Errorf("%d of %d kills", n.kills, processes)
	}
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	sessions := pgtest.Value[[]pgtype.UUID](t, store.Pool(), "SELECT array_agg(id) FROM sessions WHERE namespace = 'a2a'")
	made := 0
	for _, id := range sessions {
		made += checkTask(t, store, id.Bytes)
	}
	if made != tasks {
		t.Errorf("%d tasks were made, want %d", made, tasks)
	}
	again := pgtest.Value[int](t, store.Pool(), "SELECT count(*) FROM plans WHERE attempt > 1")
	if again == 0 {
		t.Error("no work was taken over: the kills hit no worker")
	}
	if len(report.latencies) == 0 { // as may be in the short form
		return
	}
	slices.Sort(report.latencies)
	quantile := func(part float64) time.Duration {
		return report.latencies[int(part*float64(len(report.latencies)-1))].Round(100 * time.Microsecond)
	}
	t.Logf("%d tasks, %d kills, %d executions taken over; from write to subscriber, of %d events: p50 %v, p99 %v, p99.9 %v, max %v",
		tasks, n.kills, again, len(report.latencies), quantile(0.5), quantile(0.99), quantile(0.999), quantile(1))
}

// checkTask checks that a task's history has each event once, and returns the number of
// its tasks: none if the message that asked for it was another one's.
func checkTask(t *testing.T, store repo.Repositories, session repo.ID) int {
	t.Helper()
	completed, messages := 0, 0
	for message, err := range store.Sessions().Messages(t.Context(), session, 0) {
		if err != nil {
			t.Fatal(err)
		}
		messages++
		if strings.Contains(string(message.Metadata), "COMPLETED") {
			completed++
		}
	}
	if messages > 0 && completed != 1 {
		t.Errorf("task %s was completed %d times in %d updates", session, completed, messages)
	}
	return min(messages, 1)
}

// The framework's own stores are in the memory of one process: the same harness sees that
// others do not know the tasks, so that it does find what is lost.
func TestKilledNodesWithoutStore(t *testing.T) {
	_, report := runTasks(t, node{Parts: 10, Pause: 5 * time.Millisecond}, 12, 6)
	if len(report.lost) == 0 {
		t.Error("the harness found no lost task")
	}
	t.Logf("%d of 12 tasks lost", len(report.lost))
}

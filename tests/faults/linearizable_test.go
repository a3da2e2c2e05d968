package faults

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

const (
	clientProcesses  = 3
	clientsOfProcess = 4 // in this process, too
)

// Clients here and in other processes append to one session, at its end or at an
// expected sequence, and read it, while connections are cut, and backends, the server
// and a client process are killed. Some order of the operations, each at a moment
// between its call and its return, must explain all results.
// Guarantee: Faults: Appends and reads are linearizable while connections, the server and clients are killed.
func TestLinearizable(t *testing.T) {
	s := newSharedStage(t)
	through := s.proxy.through(t, s.url)
	store := pgtest.OpenStore(t, s.url, agentstore.Options{})
	for range pgtest.Choose(12, 1) {
		session := pgtest.NewSession(t, store)
		all := s.histories(t, clientTask{DatabaseURL: through, Session: session, Clients: clientsOfProcess, Operations: pgtest.Choose(100, 10)}, true)
		awaitEnd(t, s.url)
		var last []repo.ID
		for message, err := range store.Sessions().Messages(t.Context(), session, 0) {
			if err != nil {
				t.Fatal(err)
			}
			last = append(last, message.ID)
		}
		report(t, all, last)
		if result := check(t, all, last); result != porcupine.Ok {
			t.Fatalf("the history is %s\n%s", result, explain(all, last))
		}
	}
}

// The same clients and the same checker find a sequence that is read before the lock.
func TestNaiveIsNotLinearizable(t *testing.T) {
	s := newSharedStage(t)
	databaseURL := s.url
	execute(t, databaseURL, naiveSchema)
	store, end, err := openNaive(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	await.For(t, "a history of the naive store is not linearizable", func() bool {
		session := repo.NewID()
		execute(t, databaseURL, "INSERT INTO naive_counters VALUES ($1, 0)", pgtype.UUID{Bytes: session, Valid: true})
		all := s.histories(t, clientTask{DatabaseURL: databaseURL, Naive: true, Session: session, Clients: 4, Operations: 25}, false)
		last, err := store.MessagesFrom(t.Context(), session, 0, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		ids := make([]repo.ID, len(last))
		for i, message := range last {
			ids[i] = message.ID
		}
		report(t, all, ids)
		return check(t, all, ids) == porcupine.Illegal
	})
}

// histories runs the task's clients here and in other processes and returns all of
// their operations. With faults, the server, the network and a process fail
// meanwhile.
func (s *stage) histories(t *testing.T, task clientTask, faults bool) []operation {
	t.Helper()
	var processes []*process
	for p := range clientProcesses {
		task := task
		task.First = (p + 1) * task.Clients
		processes = append(processes, startProcess(t, task))
	}
	store, end, err := task.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	var here history
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	if faults {
		wg.Go(func() { s.trouble(ctx, t, processes[0], here.done) })
	}
	task.run(t.Context(), store, here.record)
	all := here.operations()
	for i, p := range processes {
		all = append(all, p.end(t, faults && i == 0)...)
	}
	cancel()
	wg.Wait()
	return all
}

// trouble injects faults in turn until ctx ends, and then repairs the server and the
// network. The victim is killed early. Between two faults operations are done.
func (s *stage) trouble(ctx context.Context, t *testing.T, victim *process, calls func() int) {
	for turn := 0; ctx.Err() == nil; turn++ {
		progress(ctx, t, 50*time.Millisecond, calls)
		switch turn % 4 {
		case 0:
			terminate(t, s.url)
		case 1:
			s.proxy.Stop()
			time.Sleep(rand.N(20 * time.Millisecond)) // pace: a cut of any length
			if err := s.proxy.Start(); err != nil {
				t.Error(err)
				return
			}
		case 2:
			_ = victim.command.Process.Kill()
		case 3:
			conn := connect(t, s.url)
			var pid int
			err := conn.QueryRow(t.Context(), "SELECT pid FROM pg_stat_activity WHERE application_name = 'agentstore' LIMIT 1").Scan(&pid)
			disconnect(conn)
			if err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

// awaitEnd waits until no backend works for a client: what is in doubt is then either
// stored or will never be. A server one of whose backends was killed has to recover first.
func awaitEnd(t *testing.T, databaseURL string) {
	t.Helper()
	await.For(t, "no backend works", func() bool {
		conn, err := pgx.Connect(t.Context(), databaseURL)
		if err != nil {
			return false
		}
		defer disconnect(conn)
		var busy int
		err = conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE application_name = 'agentstore' AND state <> 'idle'`).Scan(&busy)
		return err == nil && busy == 0
	})
}

func report(t *testing.T, all []operation, last []repo.ID) {
	t.Helper()
	counts := map[string]int{}
	for _, o := range all {
		counts[o.Outcome]++
	}
	written := 0
	for _, o := range all {
		if o.Outcome == unknown && len(o.Messages) > 0 && slices.Contains(last, o.Messages[0]) {
			written++
		}
	}
	t.Logf("%d operations, %d messages: %d done, %d conflicted, %d refused, %d unknown, of which %d were written",
		len(all), len(last), counts[done], counts[conflicted], counts[refused], counts[unknown], written)
}

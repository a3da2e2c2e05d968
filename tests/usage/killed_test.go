package usage

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
	"github.com/seed-df90f812/agentstore/usage"
)

const (
	writerVariable = "AGENTSTORE_TEST_USAGE"
	from, to       = usage.Day("2026-03-30"), usage.Day("2026-04-02")
)

// writer is a process with one session for each of its goroutines.
type writer struct {
	URL                         string
	Process, Goroutines, PerOne int
	Naive                       bool // counts after the turn
}

// turnOf returns a turn of a session, and what it has used.
func turnOf(process, goroutine, i int) (repo.Turn, usage.Use) {
	session := fmt.Sprintf("%d/%d", process, goroutine)
	use := usage.Use{
		Day: usage.DayOf(time.Date(2026, 3, 30+i%4, 23, 59, 59, 0, time.UTC), nil), Model: fmt.Sprint("model ", i%3),
		Labels: [2]string{fmt.Sprint("tenant ", goroutine%5), "chat"}, Usage: repo.Usage{InputTokens: int64(1000 + i), OutputTokens: int64(goroutine), Cost: repo.Cost(1 + i*process)},
	}
	return repo.Turn{
		ID: fmt.Sprint(i), Create: &repo.NewSession{Key: session, Owner: "o"}, Messages: []repo.NewMessage{{Role: repo.RoleAssistant, Content: session}},
		Usage: &repo.NewUsage{InputTokens: use.InputTokens, OutputTokens: use.OutputTokens, Cost: use.Cost},
	}, use
}

func writerMain(task string) int {
	var w writer
	err := json.Unmarshal([]byte(task), &w)
	if err == nil {
		err = w.run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "writer:", err)
		return 1
	}
	return 0
}

// run stores the turns of all sessions. It begins with the last ones that are stored, as a writer that does not know
// what has become of them.
func (w writer) run(ctx context.Context) error {
	store, err := agentstore.Open(ctx, w.URL, agentstore.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	failed := make(chan error, w.Goroutines)
	var running sync.WaitGroup
	for goroutine := range w.Goroutines {
		running.Go(func() {
			first := 0
			if id, err := store.Sessions().Find(ctx, repo.SessionKey{Key: fmt.Sprintf("%d/%d", w.Process, goroutine)}); err == nil {
				session, err := store.Sessions().Get(ctx, id)
				if err != nil {
					failed <- err
					return
				}
				first = max(0, int(session.MessageCount)-3)
			}
			for i := first; i < w.PerOne; i++ {
				if err := w.add(ctx, store, goroutine, i); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	running.Wait()
	close(failed)
	return <-failed
}

func (w writer) add(ctx context.Context, store *agentstore.Store, goroutine, i int) error {
	turn, use := turnOf(w.Process, goroutine, i)
	if !w.Naive {
		if err := usage.Count(&turn, use); err != nil {
			return err
		}
		_, err := store.Sessions().AppendTurn(ctx, turn)
		return err
	}
	added, err := store.Sessions().AppendTurn(ctx, turn)
	if err != nil || added.Repeated {
		return err
	}
	if err = usage.Count(&turn, use); err == nil {
		_, err = store.State().Change(ctx, turn.State)
	}
	return err
}

// sumOf returns the sum of a list of rows.
func sumOf(rows []usage.Row) (sum usage.Row) {
	for _, row := range rows {
		sum.Uses += row.Uses
		sum.InputTokens += row.InputTokens
		sum.OutputTokens += row.OutputTokens
		sum.Cost += row.Cost
	}
	return sum
}

// stored returns what the stored turns have used, as the sessions have it, and what the report says.
func stored(t *testing.T, store *agentstore.Store, pool *pgxpool.Pool) (turns, counted usage.Row) {
	t.Helper()
	turns.Uses = pgtest.Value[int64](t, pool, "SELECT count(*) FROM session_turns")
	for page := (repo.Page{Limit: repo.MaxPageSize}); ; {
		list, err := store.Sessions().List(t.Context(), repo.SessionFilter{AnyOwner: true}, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list.Items {
			turns = sumOf([]usage.Row{turns, {Usage: s.Usage}})
		}
		if page.After = list.Next; page.After == "" {
			break
		}
	}
	rows, err := usage.Report(t.Context(), store.State(), usage.Query{From: from, To: to, By: []usage.Dimension{usage.ByDay, usage.ByModel, usage.ByLabel1, usage.ByLabel2}})
	if err != nil {
		t.Fatal(err)
	}
	return turns, sumOf(rows)
}

// Four processes store turns. All are killed in the midst, and again one by one, and others store the rest.
// Guarantee: Usage: Sums are those of the stored turns, also after kill -9.
func TestKilled(t *testing.T) {
	t.Parallel()
	for name, naive := range map[string]bool{"ours": false, "naive": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testKilled(t, naive)
		})
	}
}

func testKilled(t *testing.T, naive bool) {
	t.Helper()
	const processes = 4
	goroutines, perOne := pgtest.Choose(16, 8), pgtest.Choose(313, 40)
	url := pgtest.NewDatabase(t)
	pool, store := pgtest.NewPool(t, url), pgtest.OpenStore(t, url, agentstore.Options{})
	count := func() int { return pgtest.Value[int](t, pool, "SELECT count(*) FROM session_turns") }
	commands := make([]*exec.Cmd, processes)
	begin := func(process int) {
		w := writer{pgtest.WithParameter(url, "application_name", "writer"), process, goroutines, perOne, naive}
		command := pgtest.Again(t.Context(), writerVariable, w)
		command.Stderr = os.Stderr
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		commands[process] = command
	}
	kill := func(process int) {
		_ = commands[process].Process.Kill()
		_ = commands[process].Wait()
	}
	all := processes * goroutines * perOne
	for process := range processes {
		begin(process)
	}
	killed := 0
	for part := 1; part <= 8; part++ {
		await.For(t, "turns are stored", func() bool { return count() >= all*part/10 })
		if part%4 > 0 {
			kill(part % processes)
			begin(part % processes)
			killed++
			continue
		}
		for process := range processes {
			kill(process)
			killed++
		}
		await.For(t, "the server has ended what they have sent", func() bool {
			return pgtest.Value[int](t, pool, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'writer'") == 0
		})
		if turns, counted := stored(t, store, pool); turns != counted && !naive {
			t.Errorf("in the midst %+v are counted, and stored %+v", counted, turns)
		}
		for process := range processes {
			begin(process)
		}
	}
	for process := range processes {
		if err := commands[process].Wait(); err != nil {
			t.Error(err)
		}
	}
	var want usage.Row
	for process := range processes {
		for goroutine := range goroutines {
			for i := range perOne {
				_, use := turnOf(process, goroutine, i)
				want = sumOf([]usage.Row{want, {Uses: 1, Usage: use.Usage}})
			}
		}
	}
	turns, counted := stored(t, store, pool)
	if turns != want {
		t.Errorf("%+v are stored, want %+v", turns, want)
	}
	if naive == (counted == turns) {
		t.Errorf("%+v are counted, and stored %+v", counted, turns)
	}
	t.Logf("%d processes were killed; stored %+v, counted %+v", killed, turns, counted)
}

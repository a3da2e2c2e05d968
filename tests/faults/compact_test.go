package faults

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
	"github.com/seed-df90f812/agentstore/window"
)

// compactTask is the task of a process that compacts a session. It stays in the middle of it, unless Ends.
type compactTask struct {
	DatabaseURL string
	Session     repo.ID
	Ends        bool
}

const compactTaskVariable, compacterName = "AGENTSTORE_FAULTS_COMPACTER", "compacter"

// compactOptions are those of sessions whose messages have ten tokens.
var compactOptions = window.Options{Tokens: 1000, Estimate: func(repo.Message) int64 { return 10 }}

// runCompacter is the main function of such a process.
func runCompacter(ctx context.Context, task compactTask) error {
	store, err := agentstore.Open(ctx, task.DatabaseURL, agentstore.Options{})
	if err != nil {
		return err
	}
	_, err = window.Compact(ctx, store, task.Session, compactOptions, func(context.Context, []repo.Message) (string, error) {
		fmt.Println("summarizing")
		if !task.Ends {
			<-ctx.Done()
		}
		return "a summary", ctx.Err()
	})
	return errors.Join(err, store.Close())
}

// A process is killed while it compacts a session, before its summary is stored or about then. Nothing is left half: the prompt is
// the one before or the one after, another worker compacts the session once the lease has ended, and appends never wait.
// Guarantee: History: Another worker compacts a session whose worker was killed.
func TestKilledCompacter(t *testing.T) {
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	stored := 0
	for round := range pgtest.Choose(200, 6) {
		task := compactTask{pgtest.WithParameter(databaseURL, "application_name", compacterName), pgtest.NewSession(t, store), round%2 == 1}
		add := func(count int) {
			t.Helper()
			messages := slices.Repeat([]repo.NewMessage{{Role: repo.RoleUser, Content: "x"}}, count)
			if _, err := store.Sessions().Append(t.Context(), task.Session, messages...); err != nil {
				t.Fatal(err)
			}
		}
		add(90)
		task.kill(t)
		add(2)
		await.For(t, "the server has ended what the process has sent", func() bool {
			return pgtest.Value[int](t, store.Pool(), "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", compacterName) == 0
		})
		w, err := window.Read(t.Context(), store.Sessions(), task.Session, compactOptions)
		if err != nil {
			t.Fatal(err)
		}
		isStored := w.Messages[0].Kind == repo.KindSummary
		if isStored {
			stored++
		} else if len(w.Messages) != 92 {
			t.Errorf("the prompt has %d messages", len(w.Messages))
		}
		ignored := func(context.Context, []repo.Message) (string, error) {
			return "", errors.New("it was not to be compacted")
		}
		if added, err := window.Compact(t.Context(), store, task.Session, compactOptions, ignored); added || err != nil {
			t.Errorf("during the lease of the process that is dead: %t, %v", added, err)
		}
		// Its end, which is minutes away.
		pgtest.Exec(t, store.Pool(), "UPDATE leases SET expires_at = acquired_at WHERE name = $1", task.Session.String())
		added, err := window.Compact(t.Context(), store, task.Session, compactOptions, func(_ context.Context, messages []repo.Message) (string, error) {
			if len(messages) < 40 || messages[0].Sequence != 0 {
				t.Errorf("%d messages are summarized, from %d on", len(messages), messages[0].Sequence)
			}
			return "another one", nil
		})
		if err != nil || added == isStored {
			t.Errorf("another worker: %t, %v; the first summary is stored: %t", added, err, isStored)
		}
		all, err := store.Sessions().MessagesFrom(t.Context(), task.Session, 0, repo.MaxPageSize)
		if err != nil || len(all) != 93 {
			t.Errorf("%d messages are stored, %v", len(all), err)
		}
		if held := pgtest.Value[int](t, store.Pool(), "SELECT count(*) FROM leases WHERE owner IS NOT NULL AND expires_at > now()"); held > 0 {
			t.Errorf("%d leases are held", held)
		}
	}
	t.Logf("%d summaries were stored before the kill", stored)
}

// kill starts such a process, and kills it in the middle, or soon after.
func (task compactTask) kill(t *testing.T) {
	t.Helper()
	command := pgtest.Again(t.Context(), compactTaskVariable, task)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(output).ReadString('\n'); err != nil {
		t.Fatalf("the process printed %q: %v, %v", line, err, command.Wait())
	}
	if task.Ends {
		time.Sleep(rand.N(40 * time.Millisecond)) // pace: before its summary is stored, or after that
	}
	_ = command.Process.Kill() // it may have ended
	_ = command.Wait()
}

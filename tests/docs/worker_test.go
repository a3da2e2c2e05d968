package docs

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// TestWorkerExample runs examples/worker in memory, and twice on one database, until its reports are done, and interrupts it.
func TestWorkerExample(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "worker")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./examples/worker")
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	database := pgtest.NewEmptyDatabase(t)
	for _, of := range []struct{ url, last string }{{"", "3 in all"}, {database, "3 in all"}, {database, "6 in all"}} {
		command := exec.CommandContext(await.Context(t), binary)
		command.Env = append(os.Environ(), "DATABASE_URL="+of.url)
		output, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		printed := ""
		for lines := bufio.NewScanner(output); lines.Scan(); {
			printed += lines.Text() + "\n"
			if strings.Contains(lines.Text(), "is done") && strings.Count(printed, "is done") == 3 {
				_ = command.Process.Signal(syscall.SIGINT)
			}
		}
		if err := command.Wait(); err != nil {
			t.Errorf("%v\n%s", err, printed)
		}
		for line, want := range map[string]int{"failed": 1, "is done": 3, of.last: 1} {
			if got := strings.Count(printed, line); got != want {
				t.Errorf("%d times %q, want %d:\n%s", got, line, want, printed)
			}
		}
	}
}

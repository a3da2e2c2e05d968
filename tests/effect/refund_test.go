package effect

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// refunds is the example as a binary, with a database and a provider.
type refunds struct {
	t        *testing.T
	binary   string
	url      string
	provider string
}

func newRefunds(t *testing.T) *refunds {
	t.Helper()
	r := &refunds{t: t, binary: filepath.Join(t.TempDir(), "refund"), url: pgtest.NewDatabase(t)}
	if output, err := exec.Command("go", "build", "-o", r.binary, "github.com/seed-df90f812/agentstore/examples/refund").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	command := r.command(t.Context(), "provider", "127.0.0.1:0")
	command.Stderr = nil // it fails on purpose
	output, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	lines := bufio.NewScanner(output)
	if !lines.Scan() {
		t.Fatal("the provider has not started")
	}
	r.provider = lines.Text()
	return r
}

func (r *refunds) command(ctx context.Context, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, r.binary, arguments...)
	command.Env = append(os.Environ(), "DATABASE_URL="+pgtest.WithParameter(r.url, "application_name", "refund"), "PROVIDER="+r.provider)
	command.Stderr = os.Stderr
	return command
}

func (r *refunds) run(arguments ...string) string {
	r.t.Helper()
	output, err := r.command(r.t.Context(), arguments...).Output()
	if err != nil {
		r.t.Fatalf("%v: %v", arguments, err)
	}
	return string(output)
}

// work starts a worker, and returns how to kill it.
func (r *refunds) work() (kill func()) {
	r.t.Helper()
	command := r.command(r.t.Context(), "work")
	if err := command.Start(); err != nil {
		r.t.Fatal(err)
	}
	return func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	}
}

// payments returns the provider's payments.
func (r *refunds) payments() (payments map[string]struct{ Amount int64 }) {
	r.t.Helper()
	client := &client{addr: strings.TrimPrefix(r.provider, "http://")}
	if err := client.ask(r.t.Context(), "GET", "/payments", &payments); err != nil {
		r.t.Fatal(err)
	}
	return payments
}

// The example pays once what a person has approved, within its budget, although its worker is killed at each payment.
func TestRefund(t *testing.T) {
	t.Parallel()
	r := newRefunds(t)
	pool := pgtest.NewPool(t, r.url)
	for _, amount := range []string{"2500", "2500", "2500", "20000"} {
		r.run("ask", amount)
	}
	kill := r.work()
	defer func() { kill() }()
	approved := 0
	await.For(t, "all was approved", func() bool {
		approved += strings.Count(r.run("approve", "bob"), "Refund")
		return approved == 4
	})
	for n := 1; n <= 3; n++ {
		await.For(t, "there is another payment", func() bool { return len(r.payments()) >= n })
		kill()
		await.For(t, "the server has ended what the worker has sent", func() bool {
			return pgtest.Value[int](t, pool, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'refund'") == 0
		})
		age(t, pool, time.Hour)
		pgtest.Exec(t, pool, "UPDATE leases SET expires_at = acquired_at WHERE kind = 'plan'")
		pgtest.Exec(t, pool, "UPDATE plan_claims SET check_at = now()")
		kill = r.work()
	}
	var shown string
	await.For(t, "all is told", func() bool {
		shown = r.run("show")
		return strings.Count(shown, "tool ") == 4
	})
	if strings.Count(shown, "tool refunded") != 3 || strings.Count(shown, "tool not refunded") != 1 {
		t.Error(shown)
	}
	if payments := r.payments(); len(payments) != 3 {
		t.Errorf("%+v", payments)
	}
	await.For(t, "the budget is settled", func() bool {
		return strings.HasSuffix(r.run("show"), "refunded today: 75\n") &&
			pgtest.Value[int](t, pool, "SELECT count(*) FROM state_values WHERE key LIKE 'held/%'") == 0
	})
}

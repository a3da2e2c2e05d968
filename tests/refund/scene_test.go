package refund

import (
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/examples/refund/provider"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// scene is a database, a provider, and the example's processes.
type scene struct {
	*testing.T

	binary, url string
	environment []string
	pool        *pgxpool.Pool
	provider    *provider.Provider
	address     string
}

func newScene(t *testing.T, p *provider.Provider) *scene {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	s := &scene{T: t, binary: path, url: pgtest.NewDatabase(t), provider: p, address: strings.TrimPrefix(server.URL, "http://")}
	s.pool = pgtest.NewPool(t, s.url)
	s.environment = append(os.Environ(), "PROVIDER="+s.address, "HONOURS_KEYS=")
	if p.HonoursKeys {
		s.environment = append(s.environment, "HONOURS_KEYS=23h")
	}
	return s
}

// run runs a command of the example, and returns what it prints.
func (s *scene) run(arguments ...string) string {
	s.Helper()
	command := exec.CommandContext(s.Context(), s.binary, arguments...)
	command.Env, command.Stderr = append(s.environment, "DATABASE_URL="+s.url), os.Stderr
	output, err := command.Output()
	if err != nil {
		s.Fatalf("%q: %v", arguments, err)
	}
	return strings.TrimSpace(string(output))
}

// work starts a worker, and returns how to kill it.
func (s *scene) work() (kill func()) {
	s.Helper()
	command := exec.CommandContext(s.Context(), s.binary, "work")
	command.Env, command.Stderr = append(s.environment, "DATABASE_URL="+s.workerURL()), os.Stderr
	return s.start(command)
}

func (s *scene) workerURL() string { return pgtest.WithParameter(s.url, "application_name", "worker") }

func (s *scene) start(command *exec.Cmd) (kill func()) {
	s.Helper()
	if err := command.Start(); err != nil {
		s.Fatal(err)
	}
	kill = func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	}
	s.Cleanup(kill)
	return kill
}

// decide decides the request that a worker has made, or makes soon.
func (s *scene) decide(verdict string) {
	s.Helper()
	await.For(s, "a person is asked", func() bool { return s.run("decide", verdict) != "" })
}

// pass lets an hour pass for leases, effects, and plans that are not due, when the server has ended what a killed worker has
// sent.
func (s *scene) pass() {
	s.Helper()
	await.For(s, "the server has ended what the worker has sent", func() bool {
		return pgtest.Value[int](s, s.pool, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'worker'") == 0
	})
	for _, sql := range []string{
		"UPDATE leases SET expires_at = acquired_at",
		"UPDATE plan_claims SET check_at = now()",
		"UPDATE state_values SET updated_at = updated_at - interval '1 hour' WHERE key LIKE 'effect/%'",
	} {
		pgtest.Exec(s, s.pool, sql)
	}
}

// ended awaits that the plans of all calls have ended.
func (s *scene) ended() {
	s.Helper()
	await.For(s, "the plans have ended", func() bool {
		return pgtest.Value[bool](s, s.pool, "SELECT bool_and(state = 'applied') FROM plans")
	})
}

// check checks the provider's refunds, and what the store has of them: one result for each call, and in the budget and in the
// usage what was paid.
func (s *scene) check(calls int, refunded ...string) {
	s.Helper()
	made := map[string]int{}
	paid := int64(0)
	for _, r := range s.provider.Refunds() {
		made[r.Order.Order]++
		paid += r.Cents + r.Fee
	}
	for _, order := range refunded {
		if made[order] != 1 {
			s.Errorf("the order %q was refunded %d times", order, made[order])
		}
	}
	if len(s.provider.Refunds()) != len(refunded) {
		s.Errorf("the provider has %+v, want %q", s.provider.Refunds(), refunded)
	}
	shown := s.run("show")
	results := map[string]int{}
	for line := range strings.Lines(shown) {
		if word, rest, _ := strings.Cut(strings.TrimSpace(line), " "); word == "tool_result" {
			id, text, _ := strings.Cut(rest, " ")
			if results[id]++; results[id] > 1 {
				s.Errorf("the call %s has two results", id)
			}
			if text == "refunded" {
				results["refunded"]++
			}
		}
	}
	if results["refunded"] != len(refunded) || strings.Count(shown, "tool_result ") != calls {
		s.Errorf("%d of %d are refunded, want %d of %d", results["refunded"], strings.Count(shown, "tool_result "), len(refunded), calls)
	}
	money := strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%02d", paid/100, paid%100), "0"), ".")
	if len(refunded) > 0 && !strings.Contains(shown, fmt.Sprintf("usage %d %s\n", len(refunded), money)) || !strings.HasSuffix(shown, "\nbudget "+money) {
		s.Errorf("%s were paid:\n%s", money, shown)
	}
	if held := pgtest.Value[int](s, s.pool, "SELECT count(*) FROM state_values WHERE key LIKE 'held/%'"); held != 0 {
		s.Errorf("%d reservations are held", held)
	}
	if s.Failed() {
		s.Log(shown)
	}
}

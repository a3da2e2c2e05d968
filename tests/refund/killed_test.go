package refund

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/examples/refund/provider"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// point is where a worker is killed: while it writes a row, before the commit, or by what the provider does.
type point struct {
	name string
	row  string // the event, the table and the condition of a trigger
	at   string // the provider's moment: "before" or "after" the refund
	lost bool   // the provider does not make the refund then
}

var points = []point{
	{name: "Request", row: "INSERT ON state_values FOR EACH ROW WHEN (NEW.key LIKE 'approval/%')"},
	{name: "Waiting"},
	{name: "Reservation", row: "INSERT ON state_values FOR EACH ROW WHEN (NEW.key LIKE 'effect/%')"},
	{name: "Lost", at: "before", lost: true},
	{name: "Sent", at: "before"},
	{name: "Paid", at: "after"},
	{name: "Receipt", row: "INSERT ON state_values FOR EACH ROW WHEN (NEW.key LIKE 'effect-result/%')"},
	{name: "Settlement", row: "DELETE ON state_values FOR EACH ROW WHEN (OLD.key LIKE 'held/%')"},
	{name: "End", row: "UPDATE ON plans FOR EACH ROW WHEN (NEW.state = 'applied')"},
}

// moments is how a test holds a provider, once.
type moments struct {
	reached chan struct{} // closed when a moment is there
	release chan struct{} // closed: it goes on
}

func (p point) hold(of *provider.Provider) moments {
	m := moments{make(chan struct{}), make(chan struct{})}
	left := make(chan struct{}, 1)
	left <- struct{}{}
	of.At = func(moment string) {
		if moment != p.at {
			return
		}
		select {
		case <-left:
			close(m.reached)
			<-m.release
			if p.lost {
				panic(http.ErrAbortHandler)
			}
		default:
		}
	}
	return m
}

// kill lets a worker come to a point, and kills it there. The server ends what a process has sent that dies: at once, or when
// it has finished the statement.
func (s *scene) kill(p point, m moments, work func() func(), atOnce bool) {
	s.Helper()
	holder := pgtest.Connect(s, s.url)
	pgtest.Exec(s, holder, "SELECT pg_advisory_lock(1)")
	if p.row != "" {
		pgtest.Exec(s, holder, "CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END'")
		pgtest.Exec(s, holder, "CREATE TRIGGER hold AFTER "+p.row+" EXECUTE FUNCTION hold()")
	}
	kill := work()
	switch p.name {
	case "Request":
	case "Waiting":
		await.For(s, "a person is asked", func() bool {
			return pgtest.Value[bool](s, s.pool, "SELECT EXISTS (SELECT FROM state_values WHERE key LIKE 'approval/%')")
		})
	default:
		s.decide("approve")
	}
	if p.row != "" {
		pgtest.AwaitLockWait(s, holder, 1)
	}
	if p.at != "" {
		await.Value(s, "the provider is asked", m.reached)
	}
	kill()
	close(m.release)
	if atOnce {
		pgtest.Exec(s, holder, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'worker'")
	}
	pgtest.Exec(s, holder, "SELECT pg_advisory_unlock(1)")
	s.pass()
	if p.row != "" {
		pgtest.Exec(s, holder, "DROP FUNCTION hold() CASCADE")
	}
}

// A worker that is killed anywhere pays once, in the end: with a provider that honours keys, and with one that does not.
func TestKilled(t *testing.T) {
	t.Parallel()
	for _, p := range points {
		for name, honours := range map[string]bool{"Keys": true, "NoKeys": false} {
			t.Run(fmt.Sprint(p.name, "/", name), func(t *testing.T) {
				t.Parallel()
				s := newScene(t, &provider.Provider{HonoursKeys: honours})
				m := p.hold(s.provider)
				id := s.run("call", "A-1", "2500")
				s.kill(p, m, s.work, honours)
				if p.name == "Waiting" {
					s.decide("approve") // no worker runs meanwhile
				}
				s.work()
				if p.name == "Request" {
					s.decide("approve")
				}
				if p.lost && !honours {
					await.For(t, "its outcome is unknown", func() bool { return strings.Contains(s.run("show"), "effect "+id+" unknown") })
					s.run("resolve", id, "lost")
				}
				s.ended()
				s.check(1, "A-1")
			})
		}
	}
}

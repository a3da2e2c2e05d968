package effect

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/effect"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// batch is how many effects of each point a process has when it is killed.
const batch = 5

// processes is how many processes are killed: AGENTSTORE_TEST_EFFECTS is how many effects of each point.
func processes() int {
	if given, err := strconv.Atoi(os.Getenv("AGENTSTORE_TEST_EFFECTS")); err == nil {
		return max(given/batch, 1)
	}
	return pgtest.Choose(20, 2)
}

// scene is a database, a remote, and the calls whose processes were killed.
type scene struct {
	t      *testing.T
	url    string
	store  *agentstore.Store
	pool   *pgxpool.Pool
	remote *client
	task   workerTask
}

func newScene(t *testing.T, honours, naive bool) *scene {
	t.Helper()
	url := pgtest.NewDatabase(t)
	s := &scene{t: t, url: url, store: pgtest.OpenStore(t, url, agentstore.Options{}), pool: pgtest.NewPool(t, url), remote: startRemote(t, honours)}
	s.task = workerTask{URL: pgtest.WithParameter(url, "application_name", "worker"), Remote: s.remote.addr, Naive: naive}
	for p := range points {
		for range batch {
			s.task.Points = append(s.task.Points, p)
		}
	}
	return s
}

// kill has a process begin a batch of effects, kills it when each is at its point, and lets an hour pass.
func (s *scene) kill() {
	s.t.Helper()
	s.task.Session = pgtest.NewSession(s.t, s.store)
	command := pgtest.Again(s.t.Context(), workerVariable, s.task)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	written := make(chan string)
	go func() {
		defer close(written)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			written <- lines.Text()
		}
	}()
	for range s.task.Points {
		select {
		case _, more := <-written:
			if !more {
				s.t.Fatal("the worker has ended")
			}
		case <-s.remote.held:
		}
	}
	if err := command.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	for range written { // until it is dead
	}
	_ = command.Wait()
	if err := s.remote.ask(s.t.Context(), http.MethodPost, "/release", nil); err != nil {
		s.t.Fatal(err)
	}
	age(s.t, s.pool, time.Hour)
}

// each does something with each effect of the batch, some at once.
func (s *scene) each(do func(call string, p point)) {
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := worker; i < len(s.task.Points); i += 4 {
				do(callOf(i, s.task.Points[i]), s.task.Points[i])
			}
		})
	}
	all.Wait()
}

// again makes an effect again, in this process.
func (s *scene) again(call string, policy effect.Policy) (effect.Outcome, error) {
	return effect.Once(s.t.Context(), s.store, effect.Key{Session: s.task.Session, Call: call}, json.RawMessage(`{"amount":12}`), policy,
		func(ctx context.Context, e effect.Effect) (json.RawMessage, error) {
			return pay(ctx, s.remote.addr, call, e.IdempotencyKey, "", func() {})
		})
}

// Guarantee: Effects: With a remote that honours keys, kill -9 anywhere leaves one effect.
func TestKilledWithKeys(t *testing.T) {
	t.Parallel()
	s, made := newScene(t, true, false), [points]int{}
	for range processes() {
		s.kill()
		s.each(func(call string, p point) {
			outcome, err := s.again(call, effect.Policy{HonoursKey: 24 * time.Hour})
			if want := `{"receipt":"` + call + `/1"}`; err != nil || string(outcome.Result) != want || outcome.Repeated != (p == afterStore) {
				t.Errorf("%v: %+v, %v", p, outcome, err)
			}
		})
		s.count(&made, true)
	}
	t.Logf("effects that happened once, by the point of the kill: %v", made)
}

// count checks that each effect of the batch happened once, and forgets them.
func (s *scene) count(made *[points]int, exactly bool) (twice int) {
	s.t.Helper()
	paid := s.remote.paid(s.t)
	for i, p := range s.task.Points {
		switch n := len(paid.Payments[callOf(i, p)]); {
		case n == 1:
			made[p]++
		case exactly:
			s.t.Errorf("%v: it happened %d times", p, n)
		case n > 1:
			twice++
		}
	}
	if err := s.remote.ask(s.t.Context(), http.MethodDelete, "/payments", nil); err != nil {
		s.t.Fatal(err)
	}
	return twice
}

// Guarantee: Effects: Without keys, kill -9 makes an effect unknown, and none happens twice.
func TestKilledWithoutKeys(t *testing.T) {
	t.Parallel()
	s, made, unknown := newScene(t, false, false), [points]int{}, [points]int{}
	var mu sync.Mutex
	for range processes() {
		s.kill()
		before := s.remote.paid(t)
		for range 2 {
			s.each(func(call string, p point) {
				outcome, err := s.again(call, effect.Policy{})
				of, is := errors.AsType[*effect.Error](err)
				switch {
				case p == beforeReserve || p == afterStore:
					if err != nil {
						t.Errorf("%v: %+v, %v", p, outcome, err)
					}
				case !is || of.Effect.State != effect.StateUnknown:
					t.Errorf("%v: %+v, %v", p, outcome, err)
				default:
					mu.Lock()
					unknown[p]++
					mu.Unlock()
				}
			})
		}
		after := s.remote.paid(t)
		for i, p := range s.task.Points {
			call := callOf(i, p)
			if p != beforeReserve && after.Requests[call] != before.Requests[call] || len(after.Payments[call]) > 1 {
				t.Errorf("%v: it was sent again", p)
			}
		}
		s.each(func(call string, p point) {
			outcome, err := s.again(call, effect.Policy{Reconcile: func(context.Context, effect.Effect) (effect.Answer, error) {
				if len(after.Payments[call]) == 0 {
					return effect.DidNotHappen(), nil
				}
				return effect.Happened(json.RawMessage(`{"receipt":"` + call + `/1"}`)), nil
			}})
			if err != nil || string(outcome.Result) != `{"receipt":"`+call+`/1"}` {
				t.Errorf("%v: %+v, %v", p, outcome, err)
			}
		})
		s.count(&made, true)
	}
	t.Logf("unknown, each asked twice, by the point of the kill: %v; effects that happened once after they were reconciled: %v", unknown, made)
}

// The naive way pays twice in the same harness.
func TestKilledNaive(t *testing.T) {
	t.Parallel()
	s, made, twice := newScene(t, true, true), [points]int{}, 0
	for range processes() {
		s.kill()
		s.each(func(call string, p point) {
			if _, err := make1(t.Context(), s.store, s.task, call, points); err != nil {
				t.Errorf("%v: %v", p, err)
			}
		})
		twice += s.count(&made, false)
	}
	if want := 4 * batch * processes(); twice != want {
		t.Errorf("%d were paid twice, want %d: those that were sent, and not stored", twice, want)
	}
	t.Logf("paid twice: %d of %d; once, by the point of the kill: %v", twice, int(points)*batch*processes(), made)
}

// Guarantee: Effects: An answer after the deadline is stored, or refused once others have decided.
func TestRemoteAnswersLate(t *testing.T) {
	t.Parallel()
	s := newScene(t, true, false)
	s.task.Session = pgtest.NewSession(t, s.store)
	type ended struct {
		outcome effect.Outcome
		err     error
	}
	late := func(call string) (end chan ended) {
		end = make(chan ended, 1)
		go func() {
			outcome, err := effect.Once(t.Context(), s.store, effect.Key{Session: s.task.Session, Call: call}, json.RawMessage(`{"amount":12}`), effect.Policy{},
				func(_ context.Context, e effect.Effect) (json.RawMessage, error) { // it does not look at its context
					return pay(t.Context(), s.remote.addr, call, e.IdempotencyKey, "after", func() {})
				})
			end <- ended{outcome, err}
		}()
		<-s.remote.held
		age(t, s.pool, time.Hour)
		return end
	}
	release := func() {
		if err := s.remote.ask(t.Context(), http.MethodPost, "/release", nil); err != nil {
			t.Fatal(err)
		}
	}
	stored := late("stored")
	if _, err := s.again("stored", effect.Policy{}); !errors.Is(err, repo.ErrConflict) {
		t.Error(err)
	}
	release()
	if e := <-stored; e.err != nil {
		t.Error(e.err)
	}
	if outcome, err := s.again("stored", effect.Policy{}); err != nil || !outcome.Repeated {
		t.Errorf("%+v, %v", outcome, err)
	}
	refused := late("refused")
	if _, err := effect.Resolve(t.Context(), s.store, effect.Key{Session: s.task.Session, Call: "refused"}, effect.GivenUp("too late")); !errors.Is(err, repo.ErrConflict) && err != nil {
		t.Error(err)
	}
	release()
	e := <-refused
	if of, is := errors.AsType[*effect.Error](e.err); !is || of.Effect.State != effect.StateFailed || e.outcome.Result == nil {
		t.Errorf("%+v, %v", e.outcome, e.err)
	}
	failed := effect.Policy{}
	_, err := effect.Once(t.Context(), s.store, effect.Key{Session: s.task.Session, Call: "fails"}, json.RawMessage(`{"amount":12}`), failed,
		func(ctx context.Context, e effect.Effect) (json.RawMessage, error) {
			return pay(ctx, s.remote.addr, "fails", e.IdempotencyKey, "fail", func() {})
		})
	if of, is := errors.AsType[*effect.Error](err); !is || of.Effect.State != effect.StateUnknown {
		t.Error(err)
	}
	if outcome, err := s.again("fails", effect.Policy{HonoursKey: time.Hour}); err != nil || string(outcome.Result) != `{"receipt":"fails/1"}` {
		t.Errorf("%+v, %v", outcome, err)
	}
	if n := len(s.remote.paid(t).Payments["fails"]); n != 1 {
		t.Errorf("it was paid %d times", n)
	}
}

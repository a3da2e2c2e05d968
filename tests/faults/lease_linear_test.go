package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// The operations on a lease.
const (
	acquireLease = "acquire"
	renewLease   = "renew"
	releaseLease = "release"
)

// leaseCall is one call of a contender, repeated until its outcome is known: since the
// owner is the same, the repetitions are one call.
type leaseCall struct {
	Kind, Owner, Outcome string
	// Token is the one that was acquired, renewed or released.
	Token int64
	// Holder and HolderToken are those of a conflict.
	Holder      string
	HolderToken int64
	// Call and Return are times of the machine's clock, which all processes share.
	Call, Return int64
	// Doubt is when the first attempt began whose answer was lost, or 0. Such an attempt
	// may arrive after the call has returned: see lateAttempts.
	Doubt int64
}

// leaseState is a lease that does not expire. A fence of 0: it is free.
type leaseState struct {
	holder      string
	fence, last int64
}

// leaseModel is the contract of one lease for sequential calls.
var leaseModel = porcupine.Model{
	Init: func() any { return leaseState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, c := state.(leaseState), input.(leaseCall)
		held := s.fence != 0
		switch {
		case c.Kind == acquireLease && c.Outcome == conflicted:
			return held && s.holder != c.Owner && s.holder == c.Holder && s.fence == c.HolderToken, s
		case c.Kind == acquireLease && held:
			return s.holder == c.Owner && s.fence == c.Token, s
		case c.Kind == acquireLease:
			return c.Token > s.last, leaseState{c.Owner, c.Token, c.Token}
		case c.Kind == renewLease:
			return (held && s.fence == c.Token) == (c.Outcome == done), s
		case s.fence == c.Token:
			return true, leaseState{last: s.last}
		}
		return true, s // released what is not held
	},
}

// leaser is the part of repo.Leases that the contenders call.
type leaser interface {
	Acquire(ctx context.Context, lease repo.NewLease) (repo.Lease, error)
	Renew(ctx context.Context, lease repo.Lease, ttl time.Duration) (repo.Lease, error)
	Release(ctx context.Context, lease repo.Lease) error
}

// Contenders here and in other processes acquire, renew and release one lease while
// connections are cut and backends end. Some order must explain all results: there is
// one holder at a time, and the fences grow.
// Guarantee: Leases: One owner at a time holds a lease, and fences grow, whatever connections break.
func TestLeaseIsLinearizable(t *testing.T) {
	s := newSharedStage(t)
	through := s.proxy.through(t, s.url)
	store := pgtest.OpenStore(t, through, agentstore.Options{MaxConns: 8})
	acquired := 0
	for round := range pgtest.Choose(12, 1) {
		// Together, in the full form, 64 contenders acquire more than 10,000 leases.
		task := leaseTask{DatabaseURL: through, Key: repo.LeaseKey{Kind: "round", Name: fmt.Sprint(round)}, Contenders: pgtest.Choose(16, 4), Calls: pgtest.Choose(60, 8)}
		ctx, cancel := context.WithCancel(await.Context(t))
		var trouble sync.WaitGroup
		var processes []func() []leaseCall
		for process := range pgtest.Choose(3, 2) {
			task.Name = fmt.Sprintf("process%d/", process)
			processes = append(processes, startClients[leaseCall](t, leaseTaskVariable, task.Name, task))
		}
		over, end := context.WithCancel(ctx)
		var made atomic.Int64
		trouble.Go(func() { s.cutEvery(over, t, 100*time.Millisecond, func() int { return int(made.Load()) }) })
		task.Name = ""
		calls := task.contend(ctx, store.Leases(), &made)
		for _, end := range processes {
			calls = append(calls, end()...)
		}
		end()
		trouble.Wait()
		cancel()
		result, leases := checkLease(t, calls)
		if result != porcupine.Ok {
			for _, c := range calls {
				t.Logf("%+v", c)
			}
			t.Fatalf("the history is %s", result)
		}
		acquired += leases
	}
	t.Logf("%d leases", acquired)
}

// The same contenders and the same checker find a lease that is read, and then written.
func TestNaiveLeaseIsNotLinearizable(t *testing.T) {
	s := newSharedStage(t)
	execute(t, s.url, "CREATE TABLE naive_lease (holder text, fence bigint); INSERT INTO naive_lease VALUES ('', 0); CREATE SEQUENCE naive_tokens")
	store := pgtest.OpenStore(t, s.url, agentstore.Options{MaxConns: 8})
	await.For(t, "a history of the naive lease is not linearizable", func() bool {
		result, _ := checkLease(t, leaseTask{Contenders: 8, Calls: 10}.contend(t.Context(), naiveLeaser{store}, new(atomic.Int64)))
		return result == porcupine.Illegal
	})
}

// naiveLeaser looks whether the lease is free, and then takes it.
type naiveLeaser struct{ store *agentstore.Store }

func (n naiveLeaser) read(ctx context.Context) (holder string, fence int64, err error) {
	err = n.store.Pool().QueryRow(ctx, "SELECT holder, fence FROM naive_lease").Scan(&holder, &fence)
	return holder, fence, err
}

func (n naiveLeaser) Acquire(ctx context.Context, lease repo.NewLease) (repo.Lease, error) {
	holder, fence, err := n.read(ctx)
	if err != nil || holder != "" && holder != lease.Owner {
		return repo.Lease{}, errors.Join(err, &repo.LeaseConflictError{Holder: holder, Fence: fence})
	}
	if holder == "" {
		err = n.store.Pool().QueryRow(ctx, "UPDATE naive_lease SET holder = $1, fence = nextval('naive_tokens') RETURNING fence", lease.Owner).Scan(&fence)
	}
	return repo.Lease{Owner: lease.Owner, Fence: fence}, err
}

func (n naiveLeaser) Renew(ctx context.Context, lease repo.Lease, _ time.Duration) (repo.Lease, error) {
	_, fence, err := n.read(ctx)
	if err == nil && fence != lease.Fence {
		err = &repo.LeaseLostError{}
	}
	return lease, err
}

func (n naiveLeaser) Release(ctx context.Context, lease repo.Lease) error {
	_, err := n.store.Pool().Exec(ctx, "UPDATE naive_lease SET holder = '', fence = 0 WHERE fence = $1", lease.Fence)
	return err
}

// checkLease checks a history, and returns how often the lease was acquired.
func checkLease(t *testing.T, calls []leaseCall) (result porcupine.CheckResult, acquired int) {
	t.Helper()
	var operations []porcupine.Operation
	fences, conflicts := map[int64]bool{}, 0
	for _, c := range calls {
		if c.Kind == acquireLease && c.Outcome == done {
			fences[c.Token] = true
		}
	}
	calls = append(calls, lateAttempts(calls)...)
	// Tokens only grow, as a plan's version does.
	if !narrow(calls, (*leaseCall).seen, func(c *leaseCall) (begun, returned *int64) { return &c.Call, &c.Return }) {
		return porcupine.Illegal, len(fences)
	}
	for i, c := range calls {
		if c.Outcome == conflicted {
			// They change nothing, and their times fit their fences: a part is enough.
			if conflicts++; conflicts > 500 && conflicts%50 > 0 {
				continue
			}
		}
		operations = append(operations, porcupine.Operation{ClientId: i, Input: c, Call: c.Call, Return: c.Return})
	}
	result = porcupine.CheckOperationsTimeout(leaseModel, operations, time.Until(await.End(t)))
	t.Logf("%d calls, %d conflicts, %d leases: %s", len(calls), conflicts, len(fences), result)
	return result, len(fences)
}

// lateAttempts returns the acquisitions by attempts whose answers were lost, and which
// arrived after others of the same call had been answered. Their owners do not know the
// fence, but others saw it: before the owner acquired the lease again, or without that.
func lateAttempts(calls []leaseCall) (late []leaseCall) {
	type holder struct {
		owner string
		fence int64
	}
	doubts, known, seen := map[string]int64{}, map[holder]int64{}, map[holder]int64{}
	earliest := func(times map[holder]int64, of holder, at int64) {
		if before, ok := times[of]; !ok || at < before {
			times[of] = at
		}
	}
	for _, c := range calls {
		switch {
		case c.Kind == acquireLease && c.Outcome == done:
			earliest(known, holder{c.Owner, c.Token}, c.Call)
		case c.Kind == acquireLease:
			earliest(seen, holder{c.Holder, c.HolderToken}, c.Return)
		}
		if before, ok := doubts[c.Owner]; c.Kind == acquireLease && c.Doubt != 0 && (!ok || c.Doubt < before) {
			doubts[c.Owner] = c.Doubt
		}
	}
	for of, at := range seen {
		acquired, isKnown := known[of]
		if doubt, ok := doubts[of.owner]; ok && doubt < at && (!isKnown || at < acquired) {
			late = append(late, leaseCall{Kind: acquireLease, Owner: of.owner, Outcome: done, Token: of.fence, Call: doubt, Return: math.MaxInt64})
		}
	}
	return late
}

// A holder that has not acquired its lease is found, unless the answer to an earlier
// attempt was lost.
func TestLateAttemptOfALease(t *testing.T) {
	for doubt, want := range map[int64]porcupine.CheckResult{0: porcupine.Illegal, 3: porcupine.Ok, 9: porcupine.Illegal} {
		calls := []leaseCall{
			{Kind: acquireLease, Owner: "a", Outcome: done, Token: 1, Call: 1, Return: 2},
			{Kind: acquireLease, Owner: "b", Outcome: conflicted, Holder: "a", HolderToken: 1, Call: 3, Return: 4, Doubt: doubt},
			{Kind: releaseLease, Owner: "a", Outcome: done, Token: 1, Call: 5, Return: 6},
			{Kind: acquireLease, Owner: "a", Outcome: conflicted, Holder: "b", HolderToken: 2, Call: 7, Return: 8},
			{Kind: acquireLease, Owner: "b", Outcome: done, Token: 2, Call: 9, Return: 10},
		}
		if got, _ := checkLease(t, calls); got != want {
			t.Errorf("doubt since %d: %s, want %s", doubt, got, want)
		}
	}
}

// seen returns the fence under which a call took effect, or 0 if it does not show that.
func (c *leaseCall) seen() int64 {
	switch {
	case c.Outcome == conflicted:
		return c.HolderToken
	case c.Kind == releaseLease:
		return 0
	}
	return c.Token
}

// leaseTask is the task of a process of contenders.
type leaseTask struct {
	DatabaseURL, Name string
	Key               repo.LeaseKey
	Contenders, Calls int
}

const leaseTaskVariable = "AGENTSTORE_FAULTS_CONTENDERS"

// runContenders is the main function of such a process.
func runContenders(ctx context.Context, task leaseTask) error {
	store, err := agentstore.Open(ctx, task.DatabaseURL, agentstore.Options{MaxConns: 8})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	ready()
	return json.NewEncoder(os.Stdout).Encode(task.contend(ctx, store.Leases(), new(atomic.Int64)))
}

// contend has contenders of one process, which count the calls that they have made, and returns these.
func (task leaseTask) contend(ctx context.Context, leases leaser, made *atomic.Int64) []leaseCall {
	var mu sync.Mutex
	var all []leaseCall
	var working sync.WaitGroup
	for n := range task.Contenders {
		working.Go(func() {
			asked := repo.NewLease{Key: task.Key, Owner: fmt.Sprintf("%s%d", task.Name, n), TTL: repo.MaxLeaseTTL}
			var held repo.Lease
			for i := 0; i < task.Calls || held.Fence != 0; i++ {
				call := leaseCall{Kind: acquireLease, Owner: asked.Owner}
				if held.Fence != 0 {
					call.Kind = []string{acquireLease, renewLease, releaseLease, releaseLease}[rand.N(4)]
				}
				if i >= task.Calls { // leave nothing behind
					call.Kind = releaseLease
				}
				call.do(ctx, leases, asked, held)
				if ctx.Err() != nil {
					return // its outcome is not known
				}
				made.Add(1)
				mu.Lock()
				all = append(all, call)
				mu.Unlock()
				switch {
				case call.Kind == acquireLease && call.Outcome == done:
					held = repo.Lease{Key: task.Key, Fence: call.Token}
				case call.Kind == releaseLease && rand.N(4) > 0 || call.Kind == renewLease && call.Outcome != done, i >= task.Calls:
					held = repo.Lease{} // sometimes it goes on with what it has released
				case call.Outcome == conflicted:
					i--                                                                       // it has done nothing
					time.Sleep(rand.N(time.Duration(task.Contenders) * 5 * time.Millisecond)) // pace: until it tries again
				}
			}
		})
	}
	working.Wait()
	return all
}

// do makes a call until its outcome is known.
func (c *leaseCall) do(ctx context.Context, leases leaser, asked repo.NewLease, held repo.Lease) {
	c.Call = time.Now().UnixNano()
	defer func() { c.Return = time.Now().UnixNano() }()
	for ctx.Err() == nil {
		begun := time.Now().UnixNano()
		c.Outcome, c.Token = done, held.Fence
		var err error
		switch c.Kind {
		case acquireLease:
			var lease repo.Lease
			lease, err = leases.Acquire(ctx, asked)
			c.Token = lease.Fence
		case renewLease:
			_, err = leases.Renew(ctx, held, 0)
		case releaseLease:
			err = leases.Release(ctx, held)
		}
		if conflict, ok := errors.AsType[*repo.LeaseConflictError](err); ok {
			c.Outcome, c.Holder, c.HolderToken = conflicted, conflict.Holder, conflict.Fence
			return
		}
		if _, ok := errors.AsType[*repo.LeaseLostError](err); ok {
			c.Outcome = conflicted
			return
		}
		if err == nil || errors.Is(err, pgx.ErrNoRows) {
			return
		}
		if errors.Is(err, repo.ErrUnknownOutcome) && c.Doubt == 0 {
			c.Doubt = begun
		}
		time.Sleep(time.Millisecond) // pace: until the next attempt
	}
}

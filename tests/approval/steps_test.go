package approval

import (
	"context"
	"math/rand/v2"
	"os"
	"syscall"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// steps counts the steps of a process, before and after each call of a store, and kills it with SIGKILL at one of them.
type steps struct {
	at   int // from 1; above all, or 0: never
	done int
	// inCommit kills while a commit is under way, rather than before it
	inCommit bool
}

func (s *steps) step() {
	if s.done++; s.done == s.at {
		kill()
	}
}

func kill() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// committing is the step between the last call of a transaction and its commit.
func (s *steps) committing() {
	if s.inCommit && s.done+1 == s.at {
		s.done++
		go func() {
			time.Sleep(rand.N(2 * time.Millisecond)) // pace: a commit takes about as long
			kill()
		}()
		return
	}
	s.step()
}

// stepped is a store whose calls are steps.
type stepped struct {
	steppedTx
	store repo.Store
}

func newStepped(store repo.Store, s *steps) stepped { return stepped{steppedTx{store, s}, store} }

func (s stepped) Close() error { return s.store.Close() }

func (s stepped) InTx(ctx context.Context, fn func(ctx context.Context, tx repo.Repositories) error) error {
	defer s.steps.step()
	return s.store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		err := fn(ctx, steppedTx{tx, s.steps})
		s.steps.committing()
		return err
	})
}

type steppedTx struct {
	repo.Repositories
	steps *steps
}

func (s steppedTx) State() repo.State { return steppedState{s.Repositories.State(), s.steps} }
func (s steppedTx) Plans() repo.Plans { return steppedPlans{s.Repositories.Plans(), s.steps} }
func (s steppedTx) Audit() repo.Audit { return steppedAudit{s.Repositories.Audit(), s.steps} }
func (s steppedTx) Sessions() repo.Sessions {
	return steppedSessions{s.Repositories.Sessions(), s.steps}
}

type steppedState struct {
	repo.State
	steps *steps
}

func (s steppedState) Get(ctx context.Context, scope repo.Scope, key string) (repo.StateValue, error) {
	s.steps.step()
	defer s.steps.step()
	return s.State.Get(ctx, scope, key)
}

func (s steppedState) Change(ctx context.Context, changes []repo.StateChange, conditions ...repo.ScopeVersion) ([]repo.ScopeVersion, error) {
	s.steps.step()
	defer s.steps.step()
	return s.State.Change(ctx, changes, conditions...)
}

type steppedPlans struct {
	repo.Plans
	steps *steps
}

func (s steppedPlans) Get(ctx context.Context, id repo.ID) (repo.Plan, error) {
	s.steps.step()
	defer s.steps.step()
	return s.Plans.Get(ctx, id)
}

func (s steppedPlans) Claim(ctx context.Context, claim repo.Claim) ([]repo.ClaimedPlan, error) {
	s.steps.step()
	defer s.steps.step()
	return s.Plans.Claim(ctx, claim)
}

func (s steppedPlans) Transition(ctx context.Context, id repo.ID, to repo.Transition, cause repo.Cause) (repo.Plan, error) {
	s.steps.step()
	defer s.steps.step()
	return s.Plans.Transition(ctx, id, to, cause)
}

type steppedAudit struct {
	repo.Audit
	steps *steps
}

func (s steppedAudit) Record(ctx context.Context, entries ...repo.AuditEntry) error {
	s.steps.step()
	defer s.steps.step()
	return s.Audit.Record(ctx, entries...)
}

type steppedSessions struct {
	repo.Sessions
	steps *steps
}

func (s steppedSessions) Append(ctx context.Context, id repo.ID, messages ...repo.NewMessage) ([]repo.Message, error) {
	s.steps.step()
	defer s.steps.step()
	return s.Sessions.Append(ctx, id, messages...)
}

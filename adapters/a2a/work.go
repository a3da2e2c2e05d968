package a2astore

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"github.com/a2aproject/a2a-go/v2/a2asrv/workqueue"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/adapter"
)

// leases has two leases for each task: one for its execution, and one for its cancellation.
type leases struct{ *Cluster }

func (c *Cluster) lease(kind workqueue.PayloadType, id a2a.TaskID) repo.LeaseKey {
	return repo.LeaseKey{Kind: "a2a " + string(kind), Name: repo.JoinKey(c.options.Name, string(id))}
}

// take acquires the lease for work. A task that is being cancelled is not executed, but one that is
// being executed may be cancelled.
func (c *Cluster) take(ctx context.Context, r repo.Repositories, p *workqueue.Payload, owner string, ttl time.Duration) error {
	if p.Type == workqueue.PayloadTypeExecute {
		cancel := c.lease(workqueue.PayloadTypeCancel, p.TaskID)
		held := repo.LeaseFilter{Kind: cancel.Kind, Name: cancel.Name, Held: true}
		page, err := r.Leases().List(ctx, held, repo.Page{})
		if err != nil {
			return err
		} else if len(page.Items) > 0 {
			return fmt.Errorf("task is being canceled: %w", workqueue.ErrLeaseAlreadyTaken)
		}
	}
	_, err := r.Leases().Acquire(ctx, repo.NewLease{Key: c.lease(p.Type, p.TaskID), Owner: owner, TTL: ttl})
	if errors.Is(err, repo.ErrConflict) {
		return fmt.Errorf("%w: %w", workqueue.ErrLeaseAlreadyTaken, err)
	}
	return err
}

// Acquire returns a lease that is renewed until it is released.
func (l leases) Acquire(ctx context.Context, p *workqueue.Payload) (workqueue.Lease, error) {
	owner := repo.NewID().String()
	if err := l.take(ctx, l.store, p, owner, l.options.TTL); err != nil {
		return nil, err
	}
	held, err := l.hold(context.WithoutCancel(ctx), l.lease(p.Type, p.TaskID), owner)
	return taskLease{held, p.TaskID}, err
}

func (c *Cluster) hold(ctx context.Context, key repo.LeaseKey, owner string) (heartbeat, error) {
	held, err := repo.HoldLease(ctx, c.store, repo.NewLease{Key: key, Owner: owner, TTL: c.options.TTL})
	return heartbeat{held}, err
}

type taskLease struct {
	heartbeat
	id a2a.TaskID
}

func (l taskLease) TaskID() a2a.TaskID { return l.id }

// Release leaves a lease that it cannot release to expire.
func (l taskLease) Release(ctx context.Context) { _ = l.held.Release(context.WithoutCancel(ctx)) }

// heartbeat ends the work when its lease, which is renewed elsewhere, is lost.
type heartbeat struct{ held *repo.HeldLease }

func (heartbeat) HeartbeatInterval() time.Duration { return repo.MinLeaseTTL / 10 }

func (h heartbeat) Heartbeat(context.Context) error { return h.held.Err() }

// work is a queue of plans. The task's lease belongs to the plan from when the work is written until
// it has ended, in any process.
type work struct{ *Cluster }

// keyOf returns the key of the work. The same message of the same user is the same work, so that a client may
// send it again after a lost answer. Users without a name are not told apart: their work has no key.
func keyOf(user string, p *workqueue.Payload) string {
	text, err := json.Marshal([]any{user, p.ExecuteRequest})
	if user == "" || p.ExecuteRequest == nil || err != nil {
		return ""
	}
	return fmt.Sprintf("%x", sha256.Sum256(text)) // a message may be longer than a key
}

// payloadOf returns where the payload of a plan is: in the state of the task's session, with which it goes.
func payloadOf(session, plan repo.ID) repo.StateChange {
	return repo.StateChange{Scope: repo.Scope{SessionID: session}, Key: "work/" + plan.String()}
}

// Write waits a little while the task has other work: a client may answer before the work that has
// asked has ended. Then it fails with workqueue.ErrLeaseAlreadyTaken. Work that is written again is not done
// again: if its task was deleted, it fails with a2a.ErrTaskNotFound.
func (w work) Write(ctx context.Context, p *workqueue.Payload) (a2a.TaskID, error) {
	session, err := w.sessionOf(ctx, p.TaskID)
	if err != nil {
		return "", err
	}
	use := repo.UseAction{
		Key: keyOf(session.Owner, p), Existing: repo.ExistingAny, Arguments: []repo.ArgumentValue{{Name: argument, Value: strconv.AppendQuote(nil, session.ID.String())}},
	}
	for pause := 20 * time.Millisecond; ; pause *= 2 {
		var id a2a.TaskID
		err := w.store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
			plan, err := tx.Plans().Use(ctx, w.action, use)
			if err != nil {
				return err
			}
			session, err := sessionOf(ctx, tx, plan) // also if it was another one
			if err != nil {
				return err
			}
			if id = a2a.TaskID(session.Key); plan.Version > 1 { // it was written before, and has begun
				return nil
			}
			return w.write(ctx, tx, p, session, plan.ID)
		})
		if !errors.Is(err, workqueue.ErrLeaseAlreadyTaken) || p.Type != workqueue.PayloadTypeExecute || pause > time.Second {
			return id, notFound(err)
		}
		time.Sleep(pause) // a second at most: if ctx has ended, the next attempt says so
	}
}

// write stores the payload, and takes the lease for it.
func (w work) write(ctx context.Context, tx repo.Repositories, p *workqueue.Payload, session repo.Session, plan repo.ID) (err error) {
	payload, change := *p, payloadOf(session.ID, plan)
	payload.TaskID = a2a.TaskID(session.Key)
	if change.Value, err = adapter.EncodeJSON("work", payload); err != nil {
		return err
	}
	if err := tx.Plans().Link(ctx, session.ID, plan); err != nil { // so that it is in use
		return err
	}
	if _, err = tx.State().Change(ctx, []repo.StateChange{change}); err != nil {
		return err
	}
	return w.take(ctx, tx, &payload, plan.String(), repo.MaxLeaseTTL)
}

// sessionOf returns the session of the task that a plan is for.
func sessionOf(ctx context.Context, r repo.Repositories, plan repo.Plan) (session repo.Session, err error) {
	var text string
	_ = json.Unmarshal(plan.Arguments[0].Value, &text) // a text, as the action says
	id, err := repo.ParseID(text)
	if err != nil {
		return session, err
	}
	return r.Sessions().Get(ctx, id)
}

// Read waits for work. It fails with workqueue.ErrQueueClosed when the cluster or the store is closed.
func (w work) Read(ctx context.Context) (workqueue.Message, error) {
	claim := repo.Claim{
		Owner: w.owner, Namespaces: []string{w.options.Name}, Actions: []string{w.action}, TTL: w.options.TTL, Wait: true,
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.closing, cancel)() //nolint:contextcheck // it is another one's end
	for {
		claimed, err := w.store.Plans().Claim(waiting, claim)
		if w.closing.Err() != nil || errors.Is(err, repo.ErrClosed) {
			return nil, workqueue.ErrQueueClosed // a claim that was made nevertheless expires
		} else if err != nil {
			return nil, err
		}
		if m, err := w.open(context.WithoutCancel(ctx), claimed[0].Plan); m != nil || err != nil {
			return m, err
		}
	}
}

// message is work that this process has claimed. Its heartbeat renews the task's lease, which ends
// with the plan's lease.
type message struct {
	work
	heartbeat

	claim   heartbeat
	payload *workqueue.Payload
	session repo.Session // the task's, whose owner has asked for the work
	plan    repo.ID
	leave   context.CancelFunc // ends the renewing of the leases without a release
}

// open returns the message of a plan. Nil: there is nothing to do for it now.
func (w work) open(ctx context.Context, plan repo.Plan) (*message, error) {
	holding, leave := context.WithCancel(ctx)
	m := &message{work: w, plan: plan.ID, leave: leave}
	err := m.load(ctx, plan)
	ended := errors.Is(err, repo.ErrNotFound)
	if ended {
		err = nil
	}
	if err == nil {
		m.claim, err = w.hold(holding, repo.PlanLease(plan.ID), w.owner)
	}
	if p := m.payload; err == nil && !ended {
		holding = m.claim.held.Context()
		m.heartbeat, err = w.hold(holding, w.lease(p.Type, p.TaskID), plan.ID.String()) //nolint:contextcheck // it is the claim's
		if err == nil && plan.Attempt > 1 {
			ended, err = w.ended(workqueue.AttachHeartbeater(ctx, m), p, plan.Attempt > w.options.MaxAttempts)
		}
	}
	switch {
	case err != nil:
		leave()                               // what is held expires, and is claimed again
		if errors.Is(err, repo.ErrConflict) { // lost, or other work has the task after an hour in the queue
			err = nil
		}
		return nil, err
	case ended:
		return nil, m.Complete(ctx)
	}
	return m, nil
}

// load reads what the plan is for. NotFoundError: the task was deleted.
func (m *message) load(ctx context.Context, plan repo.Plan) (err error) {
	if m.session, err = sessionOf(ctx, m.store, plan); err != nil {
		return err
	}
	at := payloadOf(m.session.ID, plan.ID)
	stored, err := m.store.State().Get(ctx, at.Scope, at.Key)
	if err != nil {
		return err
	}
	return json.Unmarshal(stored.Value, &m.payload)
}

// ended reports whether work that was begun before has ended: with its task, or because this would
// be an attempt too many. The task is failed then.
func (w work) ended(ctx context.Context, p *workqueue.Payload, last bool) (bool, error) {
	stored, err := w.Tasks.Get(ctx, p.TaskID)
	missing := errors.Is(err, a2a.ErrTaskNotFound)
	switch {
	case !missing && (err != nil || stored.Task.Status.State.Terminal()):
		return err == nil, err
	case missing && (p.ExecuteRequest == nil || p.ExecuteRequest.Message.TaskID != ""): // it was deleted
		return true, nil
	case p.ExecuteRequest == nil || missing && !last:
		return last, nil
	case !last:
		p.ExecuteRequest.Message.TaskID = p.TaskID // so the framework goes on with the task that is there
		return false, nil
	}
	failed := a2a.TaskStatus{State: a2a.TaskStateFailed}
	if missing {
		message := p.ExecuteRequest.Message
		task := a2a.NewSubmittedTask(a2a.TaskInfo{TaskID: p.TaskID, ContextID: message.ContextID}, message)
		task.Status = failed
		_, err = w.Tasks.Create(ctx, task)
		return true, err
	}
	stored.Task.Status = failed
	_, err = w.Tasks.Update(ctx, &taskstore.UpdateRequest{Task: stored.Task, PrevVersion: stored.Version})
	return true, err
}

func (m *message) Payload() *workqueue.Payload { return m.payload }

// Complete ends the work and its leases together, unless another process has claimed it since: a completed plan is
// never claimed again to release the task's lease. After an error the next claim ends it.
func (m *message) Complete(ctx context.Context) error {
	defer m.leave()
	cause := repo.Cause{Actor: m.owner, Fence: m.claim.held.Lease().Fence}
	return m.store.InTx(context.WithoutCancel(ctx), func(ctx context.Context, tx repo.Repositories) error {
		if _, err := tx.Plans().Transition(ctx, m.plan, repo.TransitionComplete, cause); err != nil {
			return err
		}
		if m.payload != nil {
			done := payloadOf(m.session.ID, m.plan)
			done.Op = repo.StateRemove
			if _, err := tx.State().Change(ctx, []repo.StateChange{done}); err != nil && !errors.Is(err, repo.ErrNotFound) {
				return err
			}
		}
		_, err := tx.Leases().ReleaseAll(ctx, m.plan.String()) // the plan's own ends with its claim
		return err
	})
}

// Return leaves the work to the next claim.
func (m *message) Return(ctx context.Context, _ error) error {
	return m.claim.held.Release(context.WithoutCancel(ctx))
}

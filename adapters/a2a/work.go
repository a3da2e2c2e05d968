package a2astore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"github.com/a2aproject/a2a-go/v2/a2asrv/workqueue"

	"github.com/seed-df90f812/agentstore/repo"
)

// work is a queue of plans. The task's lease is the plan's from when the work is written until it has
// ended, whoever does it.
type work struct{ *Cluster }

// item is the argument of a plan. With the nonce, writing the same work again is a conflict.
type item struct {
	*workqueue.Payload
	Nonce repo.ID
}

// id is that of the work. The same message of the same user is the same work, so that a client may
// send it again after a lost answer. Users without a name are not told apart.
func (w work) id(ctx context.Context, p *workqueue.Payload) repo.ID {
	user := w.session(ctx, p.TaskID).Owner
	text, err := json.Marshal(p.ExecuteRequest)
	if user == "" || p.ExecuteRequest == nil || err != nil {
		return repo.NewID()
	}
	sum := sha256.Sum256([]byte(repo.JoinKey(user, string(text))))
	return repo.SessionKey{Namespace: w.options.Name, Key: "a2a message/" + hex.EncodeToString(sum[:])}.ID()
}

// Write waits a little while the task has other work: a client may answer before the work that has
// asked has ended. Then it fails with workqueue.ErrLeaseAlreadyTaken.
func (w work) Write(ctx context.Context, p *workqueue.Payload) (a2a.TaskID, error) {
	text, err := encode("work", item{p, repo.NewID()})
	value, invalid := json.Marshal(string(text)) // in a string, any text is allowed
	if err := errors.Join(err, invalid); err != nil {
		return "", err
	}
	use := repo.UseAction{ID: w.id(ctx, p), Arguments: []repo.ArgumentValue{{Name: "item", Value: value}}}
	for pause := 20 * time.Millisecond; ; pause *= 2 {
		err := w.store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
			plan, err := tx.Plans().Use(ctx, w.action, use)
			if err == nil {
				err = w.take(ctx, tx, p, plan.ID.String(), repo.MaxLeaseTTL)
			}
			return err
		})
		if _, again := errors.AsType[*repo.PlanConflictError](err); again {
			plan, err := w.store.Plans().Get(ctx, use.ID)
			if err != nil {
				return "", err
			}
			before, err := payload(plan)
			return before.TaskID, err
		} else if !errors.Is(err, workqueue.ErrLeaseAlreadyTaken) || p.Type != workqueue.PayloadTypeExecute || pause > time.Second {
			return p.TaskID, err
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(pause):
		}
	}
}

func payload(plan repo.Plan) (*workqueue.Payload, error) {
	var text string
	i := item{Payload: &workqueue.Payload{}}
	return i.Payload, errors.Join(json.Unmarshal(plan.Arguments[0].Value, &text), json.Unmarshal([]byte(text), &i))
}

// Read waits for work. It fails with workqueue.ErrQueueClosed when the cluster or the store is closed.
func (w work) Read(ctx context.Context) (workqueue.Message, error) {
	claim := repo.Claim{
		Owner: w.owner, Namespaces: []string{w.options.Name}, Actions: []string{w.action}, TTL: w.options.TTL, Wait: true,
		MaxAttempts: w.options.MaxAttempts + 3, // the last ones are for ended
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

// message is work that this process has claimed. It holds the leases of the plan and of the task.
type message struct {
	work
	heartbeat
	payload *workqueue.Payload
	plan    repo.ID
	leave   context.CancelFunc // ends the renewing of the leases without a release
}

// open returns the message of a plan. Nil: there is nothing to do for it now.
func (w work) open(ctx context.Context, plan repo.Plan) (*message, error) {
	p, err := payload(plan)
	if err != nil {
		return nil, err
	}
	holding, leave := context.WithCancel(ctx)
	claim, err := w.hold(holding, repo.PlanLease(plan.ID), w.owner)
	var task *repo.HeldLease
	if err == nil {
		task, err = w.hold(holding, w.lease(p.Type, p.TaskID), plan.ID.String())
	}
	if err != nil { // what is held expires, and is claimed again
		leave()
		if errors.Is(err, repo.ErrConflict) { // lost, or other work has the task after an hour in the queue
			err = nil
		}
		return nil, err
	}
	m := &message{w, heartbeat{w.options.TTL, []*repo.HeldLease{claim, task}}, p, plan.ID, leave}
	if plan.Attempt == 1 {
		return m, nil
	}
	ended, err := w.ended(ctx, p, plan.Attempt > w.options.MaxAttempts)
	if err != nil {
		leave()
		return nil, err
	} else if ended {
		return nil, m.Complete(ctx)
	}
	return m, nil
}

// ended reports whether work that was begun before has ended: with its task, or because this would
// be an attempt too many. The task is failed then.
func (w work) ended(ctx context.Context, p *workqueue.Payload, last bool) (bool, error) {
	stored, err := w.Tasks.Get(ctx, p.TaskID)
	if err != nil && !errors.Is(err, a2a.ErrTaskNotFound) || err == nil && stored.Task.Status.State.Terminal() {
		return err == nil, err
	} else if p.ExecuteRequest == nil {
		return last, nil
	} else if err == nil {
		p.ExecuteRequest.Message.TaskID = p.TaskID // so the framework goes on with the task that is there
	}
	if !last {
		return false, nil
	} else if stored == nil {
		message := p.ExecuteRequest.Message
		task := a2a.NewSubmittedTask(a2a.TaskInfo{TaskID: p.TaskID, ContextID: message.ContextID}, message)
		task.Status.State = a2a.TaskStateFailed
		_, err = w.Tasks.Create(ctx, task)
		return true, err
	}
	stored.Task.Status = a2a.TaskStatus{State: a2a.TaskStateFailed}
	_, err = w.Tasks.Update(ctx, &taskstore.UpdateRequest{Task: stored.Task, PrevVersion: stored.Version})
	return true, err
}

func (m *message) Payload() *workqueue.Payload { return m.payload }

// Complete ends the work and its leases together, unless another process has claimed it since: nobody
// would claim it again to release the task's lease. After an error the next claim ends it.
func (m *message) Complete(ctx context.Context) error {
	defer m.leave()
	cause := repo.Cause{Actor: m.owner, Fence: m.held[0].Lease().Token}
	return m.store.InTx(context.WithoutCancel(ctx), func(ctx context.Context, tx repo.Repositories) error {
		_, err := tx.Plans().Transition(ctx, m.plan, repo.TransitionComplete, cause)
		for i := 0; i < len(m.held) && err == nil; i++ {
			err = tx.Leases().Release(ctx, m.held[i].Lease())
		}
		return err
	})
}

// Return leaves the work to the next claim.
func (m *message) Return(ctx context.Context, _ error) error {
	m.leave()
	return m.held[0].Release(context.WithoutCancel(ctx))
}

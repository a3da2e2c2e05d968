package a2astore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv/workqueue"

	"github.com/seed-df90f812/agentstore/repo"
)

// leases has two leases for each task: one for who executes it, and one for who cancels it.
type leases struct{ *Cluster }

func (c *Cluster) lease(kind workqueue.PayloadType, id a2a.TaskID) repo.LeaseKey {
	return repo.LeaseKey{Kind: "a2a " + string(kind), Name: repo.JoinKey(c.options.Name, string(id))}
}

// take acquires the lease for work. A task that is being cancelled is not executed, but one that is
// being executed may be cancelled.
func (c *Cluster) take(ctx context.Context, r repo.Repositories, p *workqueue.Payload, owner string, ttl time.Duration) error {
	if p.Type == workqueue.PayloadTypeExecute {
		cancel := c.lease(workqueue.PayloadTypeCancel, p.TaskID)
		page, err := r.Leases().List(ctx, repo.LeaseFilter{Kind: cancel.Kind, Name: cancel.Name, Status: repo.LeaseHeld}, repo.Page{})
		if err != nil {
			return err
		} else if len(page.Leases) > 0 {
			return fmt.Errorf("task is being canceled: %w", workqueue.ErrLeaseAlreadyTaken)
		}
	}
	_, err := r.Leases().Acquire(ctx, repo.NewLease{Key: c.lease(p.Type, p.TaskID), Owner: owner, TTL: ttl})
	if errors.Is(err, repo.ErrConflict) {
		return fmt.Errorf("%w: %w", workqueue.ErrLeaseAlreadyTaken, err)
	}
	return err
}

func (c *Cluster) hold(ctx context.Context, key repo.LeaseKey, owner string) (*repo.HeldLease, error) {
	return repo.Hold(ctx, c.store, repo.NewLease{Key: key, Owner: owner, TTL: c.options.TTL})
}

// Acquire returns a lease that is renewed until it is released.
func (l leases) Acquire(ctx context.Context, p *workqueue.Payload) (workqueue.Lease, error) {
	owner := repo.NewID().String()
	if err := l.take(ctx, l.store, p, owner, l.options.TTL); err != nil {
		return nil, err
	}
	held, err := l.hold(context.WithoutCancel(ctx), l.lease(p.Type, p.TaskID), owner)
	if err != nil {
		return nil, err
	}
	return taskLease{heartbeat{l.options.TTL, []*repo.HeldLease{held}}, p.TaskID}, nil
}

type taskLease struct {
	heartbeat
	id a2a.TaskID
}

func (l taskLease) TaskID() a2a.TaskID { return l.id }

// Release leaves a lease that it cannot release to expire.
func (l taskLease) Release(ctx context.Context) { _ = l.held[0].Release(context.WithoutCancel(ctx)) }

// heartbeat ends the work when one of its leases, which are renewed elsewhere, is lost.
type heartbeat struct {
	ttl  time.Duration
	held []*repo.HeldLease
}

func (h heartbeat) HeartbeatInterval() time.Duration { return h.ttl / 10 }

func (h heartbeat) Heartbeat(context.Context) error {
	for _, held := range h.held {
		if held.Context().Err() != nil {
			return context.Cause(held.Context()) //nolint:contextcheck // it is the lease's
		}
	}
	return nil
}

package memory

import (
	"context"
	"fmt"
	"math"

	"github.com/seed-df90f812/agentstore/repo"
)

// sessions is repo.Sessions: sessions here, messages in the files beside.
type sessions struct{ at access }

func notFound(id repo.ID) error { return &repo.NotFoundError{Kind: "session", ID: id} }

func (s *sessions) Create(ctx context.Context, new repo.NewSession) (repo.Session, error) {
	new, err := new.Normalize()
	if err != nil {
		return repo.Session{}, err
	}
	created, existed, err := s.create(ctx, new)
	if err != nil || !existed {
		return created, err
	}
	if err := new.Conflict(created); err != nil {
		return repo.Session{}, err
	}
	return created, nil
}

// create returns the session that is there, or else makes it.
func (s *sessions) create(ctx context.Context, new repo.NewSession) (_ repo.Session, existed bool, _ error) {
	v, err := s.at.write(ctx)
	if err != nil {
		return repo.Session{}, false, err
	}
	defer s.at.unlock()
	if r := v.find(new.ID); r != nil {
		return r.snapshot(v), true, nil
	}
	now := v.now()
	r := &record{session: copySession(repo.Session{
		ID:                new.ID,
		Namespace:         new.Namespace,
		Actor:             new.Actor,
		AutomationProfile: new.AutomationProfile,
		Metadata:          new.Metadata,
		Budget:            new.Budget,
		CreatedAt:         now,
		UpdatedAt:         now,
	})}
	v.insert(r)
	told(v, repo.EventSessionCreated, now, new.Actor, new.ID, repo.ID{}, `{}`)
	return r.snapshot(v), false, nil
}

func (s *sessions) Get(ctx context.Context, id repo.ID) (repo.Session, error) {
	v, err := s.at.read(ctx)
	if err != nil {
		return repo.Session{}, err
	}
	defer s.at.unlock()
	r := v.find(id)
	if r == nil {
		return repo.Session{}, notFound(id)
	}
	return r.snapshot(v), nil
}

func (s *sessions) Update(ctx context.Context, id repo.ID, update repo.SessionUpdate) (repo.Session, error) {
	if err := update.Validate(); err != nil {
		return repo.Session{}, err
	}
	v, err := s.at.write(ctx)
	if err != nil {
		return repo.Session{}, err
	}
	defer s.at.unlock()
	r := v.find(id)
	if r == nil {
		return repo.Session{}, notFound(id)
	}
	if cost := r.session.Usage.Cost; update.Budget != nil && *update.Budget < cost {
		return repo.Session{}, &repo.BudgetExceeded{SessionID: id, Budget: *update.Budget, Cost: cost}
	}
	changed := r.session
	if update.Actor != nil {
		changed.Actor = *update.Actor
	}
	if update.AutomationProfile != nil {
		changed.AutomationProfile = *update.AutomationProfile
	}
	if update.Metadata != nil {
		changed.Metadata = update.Metadata
	}
	if update.Budget != nil || update.RemoveBudget {
		changed.Budget = update.Budget
	}
	r = v.edit(id)
	r.session = copySession(changed)
	r.touch(v.now())
	return r.snapshot(v), nil
}

func (s *sessions) AddUsage(ctx context.Context, id repo.ID, add repo.NewUsage) (repo.Usage, error) {
	add, err := add.Normalize()
	if err != nil {
		return repo.Usage{}, err
	}
	v, err := s.at.write(ctx)
	if err != nil {
		return repo.Usage{}, err
	}
	defer s.at.unlock()
	r := v.find(id)
	if r == nil {
		return repo.Usage{}, notFound(id)
	}
	usage, budget := r.session.Usage, r.session.Budget
	if known := r.usage(add.ID); known != nil {
		if err := add.Conflict(id, known.amounts); err != nil {
			return repo.Usage{}, err
		}
		return usage, nil
	}
	// Neither difference can overflow: no amount is negative, and the cost is
	// never above the budget.
	if budget != nil && add.Cost > *budget-usage.Cost {
		return repo.Usage{}, &repo.BudgetExceeded{SessionID: id, Budget: *budget, Cost: usage.Cost, Requested: add.Cost}
	}
	if add.InputTokens > math.MaxInt64-usage.InputTokens ||
		add.OutputTokens > math.MaxInt64-usage.OutputTokens ||
		add.Cost > math.MaxInt64-usage.Cost {
		return repo.Usage{}, &repo.InvalidError{Field: "usage", Reason: "would pass 2^63-1 in total"}
	}
	usage.InputTokens += add.InputTokens
	usage.OutputTokens += add.OutputTokens
	usage.Cost += add.Cost
	r = v.edit(id)
	r.session.Usage = usage
	r.note(add)
	r.touch(v.now())
	return usage, nil
}

func (s *sessions) Delete(ctx context.Context, id repo.ID) (repo.DeletedSession, error) {
	v, err := s.at.write(ctx)
	if err != nil {
		return repo.DeletedSession{}, err
	}
	defer s.at.unlock()
	r := v.find(id)
	if r == nil {
		return repo.DeletedSession{}, notFound(id)
	}
	deleted := repo.DeletedSession{Messages: int64(len(r.messages)), Plans: int64(len(linkedPlans(v, id)))}
	v.remove(id)
	v.links().remove(id)
	told(v, repo.EventEntityDeleted, v.now(), "", id, repo.ID{},
		fmt.Sprintf(`{"entity":"session","messages":%d,"plans":%d}`, deleted.Messages, deleted.Plans))
	return deleted, nil
}

package approval

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/seed-df90f812/agentstore/repo"
)

// Get returns a request. Errors: InvalidError; NotFoundError, also of another namespace; ForeignError.
func (a *Approvals) Get(ctx context.Context, ref Ref) (Request, error) {
	r, err := load(ctx, a.store.State(), ref)
	if err != nil {
		return Request{}, err
	}
	return r.Request, nil
}

// atOnce is how many requests of a page are read at once.
const atOnce = 3

// List returns one page of the open requests that name a person or a group among their deciders and have no vote of
// that name, the earliest expiry first. A page has fewer if sessions were deleted meanwhile, or their state was
// changed by hand. An expired request is listed until Expire or an answer finds it.
//
// Errors: InvalidError, also for an empty name; the store's.
func (a *Approvals) List(ctx context.Context, name string, page repo.Page) (list repo.List[Request], err error) {
	if err := checkText("name", name, 1, repo.MaxNameBytes); err != nil {
		return list, err
	}
	page.Limit = min(cmp.Or(page.Limit, 20), MaxPage)
	found, err := a.store.State().List(ctx, repo.Scope{Name: ScopeOf(name)}, "", page)
	if err == nil {
		err = a.lookFor(ctx, found.Values)
	}
	if err != nil {
		return list, err
	}
	requests, errs := make([]*record, len(found.Values)), make([]error, len(found.Values))
	var group sync.WaitGroup
	for worker := range min(atOnce, len(found.Values)) {
		group.Go(func() {
			for i := worker; i < len(found.Values); i += atOnce {
				requests[i], errs[i] = a.listed(ctx, found.Values[i])
			}
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return list, err
	}
	for _, r := range requests {
		if r != nil {
			list.Items = append(list.Items, r.Request)
		}
	}
	list.Next = found.Next
	return list, nil
}

// lookFor looks for the sessions of a page at once, where otherwise a view would look for one after the other.
func (a *Approvals) lookFor(ctx context.Context, entries []repo.StateValue) error {
	var ids []repo.ID
	for _, entry := range entries {
		if _, ref, ok := parseEntry(entry.Key); ok && !slices.Contains(ids, ref.SessionID) {
			ids = append(ids, ref.SessionID)
		}
	}
	if len(ids) < 2 {
		return nil
	}
	_, err := a.store.Sessions().Read(ctx, repo.ReadSessions{IDs: ids})
	return err
}

// listed returns the request of an entry. Nil: it is gone, or not what was asked.
func (a *Approvals) listed(ctx context.Context, entry repo.StateValue) (*record, error) {
	_, ref, ok := parseEntry(entry.Key)
	if !ok {
		return nil, nil
	}
	r, err := read(ctx, a.store.State(), ref)
	if _, foreign := errors.AsType[*ForeignError](err); foreign || errors.Is(err, repo.ErrNotFound) {
		return nil, nil
	}
	var sum string
	if err != nil || json.Unmarshal(entry.Value, &sum) != nil || sum != r.Sum() || r.Status != Open {
		return nil, err
	}
	return r, nil
}

// Count counts what List lists, up to limit, at most MaxCount (zero: 1,000), and also what List leaves out until Expire
// has found it. It reads what it counts. Errors: InvalidError; the store's.
func (a *Approvals) Count(ctx context.Context, name string, limit int) (count int, more bool, err error) {
	limit = cmp.Or(limit, 1000)
	if err := checkText("name", name, 1, repo.MaxNameBytes); err != nil || limit < 0 || limit > MaxCount {
		return 0, false, cmp.Or[error](err, &repo.InvalidError{Field: "limit", Reason: "is not from 0 to 10,000"})
	}
	for page := (repo.Page{}); ; {
		page.Limit = min(limit-count+1, repo.MaxPageSize)
		found, err := a.store.State().List(ctx, repo.Scope{Name: ScopeOf(name)}, "", page)
		count += len(found.Values)
		if page.After = found.Next; err != nil || page.After == "" || count > limit {
			return min(count, limit), count > limit, err
		}
	}
}

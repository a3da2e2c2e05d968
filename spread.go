package agentstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"

	"github.com/seed-df90f812/agentstore/internal/inside"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// Spread says in which of several stores, its shards, a namespace is. Each is opened for a schema or a database of its
// own, and all else is done with the stores themselves: migrations, lists over namespaces, retention, erasure, the
// audit trail's log, Close. See docs/scaling.md. It is safe for concurrent use.
//
// The first store keeps the places. A place is given once, and never changes, so that processes may remember it.
type Spread struct {
	stores []*Store
	places repo.State

	mu    sync.RWMutex
	known map[string]int
}

// PlacedError reports that a namespace has something in other shards than it was to be placed in, or in more than one.
// It matches repo.ErrConflict.
type PlacedError struct {
	Namespace string
	Shards    []int
}

func (e *PlacedError) Error() string {
	return fmt.Sprintf("namespace %q is in shard %v", e.Namespace, e.Shards)
}

// Is makes errors.Is(err, repo.ErrConflict) true.
func (e *PlacedError) Is(target error) bool { return target == repo.ErrConflict }

// maxKnown bounds the places that a process remembers.
const maxKnown = 100_000

// What a spread stores, in limits.PlacesNamespace: in each store its mark, and in the first one the shard of each
// namespace.
var markScope, placesScope = repo.Scope{Name: "mark"}, repo.Scope{Name: "places"}

// mark says which shard of which spread a store is. So stores in another order, or a copy of one, are refused.
type mark struct {
	Spread repo.ID `json:"spread"`
	Shard  int     `json:"shard"`
}

// NewSpread returns the spread of stores, which are numbered as they are given. Each notes that it is of this spread,
// with its number: give them in the same order always, and new ones, which are empty, at the end. A nil store, since
// it cannot be opened now, is unavailable; the first one cannot be nil. Errors: repo.InvalidError for a store that is
// another shard; the stores'.
func NewSpread(ctx context.Context, stores ...*Store) (*Spread, error) {
	if len(stores) == 0 || stores[0] == nil {
		return nil, &repo.InvalidError{Field: "stores", Reason: "have no first one, which keeps the places"}
	}
	spread := repo.NewID()
	for _, note := range []bool{false, true} { // nothing is noted before all are looked at
		for i, store := range stores {
			if store == nil {
				continue
			}
			own := store.kept.In(limits.PlacesNamespace).State()
			is, err := read[mark](ctx, own, markScope, "mark")
			if errors.Is(err, repo.ErrNotFound) {
				if !note {
					continue
				}
				is, err = give(ctx, own, markScope, "mark", mark{spread, i})
			}
			if err != nil {
				return nil, err
			}
			if i == 0 && is.Shard == 0 {
				spread = is.Spread
			}
			if is != (mark{spread, i}) {
				return nil, &repo.InvalidError{
					Field:  fmt.Sprintf("stores[%d]", i),
					Reason: fmt.Sprintf("is shard %d of spread %s", is.Shard, is.Spread),
				}
			}
		}
	}
	places := stores[0].kept.In(limits.PlacesNamespace).State()
	return &Spread{stores: slices.Clone(stores), places: places, known: map[string]int{}}, nil
}

// In returns the view of a namespace in the store that has it (see Store.In). A namespace without a place gets one: the
// shard that has something of it, or otherwise one by a hash of its name. Errors: repo.InvalidError, also in a
// transaction of a store; PlacedError; errors of the first store, and for a namespace without a place of all;
// repo.ErrUnavailable for a shard that was not given.
func (s *Spread) In(ctx context.Context, namespace string) (repo.Store, error) {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(namespace))
	shard, err := s.place(ctx, namespace, int(hash.Sum32()%uint32(len(s.stores))))
	if err != nil {
		return nil, err
	}
	if shard < 0 || shard >= len(s.stores) || s.stores[shard] == nil {
		return nil, fmt.Errorf("%w: namespace %q is in shard %d, which was not given", repo.ErrUnavailable, namespace, shard)
	}
	return s.stores[shard].In(namespace), nil
}

// Place places a namespace in a shard, and may be repeated. Errors: PlacedError if it has a place, or something, in
// another one; otherwise In's.
func (s *Spread) Place(ctx context.Context, namespace string, shard int) error {
	if shard < 0 || shard >= len(s.stores) {
		return &repo.InvalidError{Field: "shard", Reason: fmt.Sprintf("is not from 0 to %d", len(s.stores)-1)}
	}
	is, err := s.place(ctx, namespace, shard)
	if err == nil && is != shard {
		err = &PlacedError{namespace, []int{is}}
	}
	return err
}

// place returns the shard of a namespace, which is the wanted one if it has none.
func (s *Spread) place(ctx context.Context, namespace string, wanted int) (int, error) {
	switch err := rules.CheckNamespace(namespace); {
	case err != nil:
		return 0, err
	case namespace == limits.PlacesNamespace:
		return 0, &repo.InvalidError{Field: "namespace", Reason: "is reserved for the places of the spread"}
	case inside.Any(ctx): // which is of one shard
		return 0, &repo.InvalidError{Field: "context", Reason: "belongs to a transaction: ask for views before it"}
	}
	s.mu.RLock()
	shard, known := s.known[namespace]
	s.mu.RUnlock()
	if known {
		return shard, nil
	}
	shard, err := read[int](ctx, s.places, placesScope, namespace)
	if errors.Is(err, repo.ErrNotFound) {
		var has []int
		if has, err = s.shardsWith(ctx, namespace); err != nil {
			return 0, err
		}
		switch len(has) {
		case 0:
		case 1:
			wanted = has[0]
		default:
			return 0, &PlacedError{namespace, has}
		}
		shard, err = give(ctx, s.places, placesScope, namespace, wanted)
	}
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxKnown {
		clear(s.known)
	}
	s.known[namespace] = shard
	return shard, nil
}

// shardsWith returns the shards that have something of a namespace: one that a store had before it was of the spread,
// or of which the place was lost when the first store was restored.
func (s *Spread) shardsWith(ctx context.Context, namespace string) (shards []int, err error) {
	has, errs := make([]bool, len(s.stores)), make([]error, len(s.stores))
	var asking sync.WaitGroup
	for i, store := range s.stores {
		if store == nil {
			return nil, fmt.Errorf("%w: shard %d, which was not given, may have namespace %q", repo.ErrUnavailable, i, namespace)
		}
		asking.Go(func() { has[i], errs[i] = store.Removal().Has(ctx, namespace) })
	}
	asking.Wait()
	for i := range has {
		if errs[i] != nil {
			return nil, fmt.Errorf("shard %d: %w", i, errs[i])
		}
		if has[i] {
			shards = append(shards, i)
		}
	}
	return shards, nil
}

// read returns the value of a key.
func read[V any](ctx context.Context, state repo.State, scope repo.Scope, key string) (value V, err error) {
	stored, err := state.Get(ctx, scope, key)
	if err != nil {
		return value, err
	}
	if err := json.Unmarshal(stored.Value, &value); err != nil {
		return value, fmt.Errorf("%w: a place of the spread is malformed", repo.ErrSchema)
	}
	return value, nil
}

// give gives a key a value unless it has one, and returns its value then.
func give[V any](ctx context.Context, state repo.State, scope repo.Scope, key string, value V) (V, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return value, err
	}
	_, err = state.Change(ctx, []repo.StateChange{{Scope: scope, Key: key, Value: text, IfVersion: new(int64)}})
	if err != nil && !errors.Is(err, repo.ErrConflict) {
		return value, err
	}
	return read[V](ctx, state, scope, key)
}

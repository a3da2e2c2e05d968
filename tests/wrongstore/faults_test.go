package wrongstore

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// meanwhile is as long as a round trip. To yield is not enough: on a busy machine no other may come in between.
func meanwhile() { time.Sleep(100 * time.Microsecond) } // pace: others come in between

// countingStore uses the count of messages, read before, as the next sequence.
type countingStore struct{ repo.Store }

func (s countingStore) Sessions() repo.Sessions { return countingSessions{s.Store.Sessions()} }

type countingSessions struct{ repo.Sessions }

func (s countingSessions) Append(ctx context.Context, id repo.ID, messages ...repo.NewMessage) ([]repo.Message, error) {
	session, err := s.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	meanwhile()
	stored, err := s.Sessions.Append(ctx, id, messages...)
	for i := range stored {
		if stored[i].Sequence >= session.MessageCount { // a new message
			stored[i].Sequence = session.MessageCount + int64(i)
		}
	}
	return stored, err
}

// unconditionalStore moves a plan from the stage that it read, without the condition
// that the plan is still there: several callers believe that they moved it.
type unconditionalStore struct{ repo.Store }

func (s unconditionalStore) Plans() repo.Plans { return unconditionalPlans{s.Store.Plans()} }

type unconditionalPlans struct{ repo.Plans }

func (p unconditionalPlans) Transition(ctx context.Context, id repo.ID, transition repo.Transition, cause repo.Cause) (repo.Plan, error) {
	stored, err := p.Get(ctx, id)
	if err != nil {
		return stored, err
	}
	moved, moves, err := rules.Moved(stored, transition, cause)
	if err != nil || !moves {
		return p.Plans.Transition(ctx, id, transition, cause)
	}
	meanwhile()
	after, err := p.Plans.Transition(ctx, id, transition, cause)
	if errors.Is(err, repo.ErrConflict) {
		return moved, nil
	}
	return after, err
}

// versionlessStore ignores the version that the caller gives.
type versionlessStore struct{ repo.Store }

func (s versionlessStore) Plans() repo.Plans { return versionlessPlans{s.Store.Plans()} }

type versionlessPlans struct{ repo.Plans }

func (p versionlessPlans) Transition(ctx context.Context, id repo.ID, transition repo.Transition, cause repo.Cause) (repo.Plan, error) {
	if cause.Version > 0 {
		cause.Version = 0
	}
	return p.Plans.Transition(ctx, id, transition, cause)
}

// sharingStore keeps the caller's slices and returns its own.
type sharingStore struct {
	repo.Store
	mu       sync.Mutex
	messages map[repo.ID]repo.NewMessage
	sessions map[repo.ID]repo.Session
	plans    map[repo.ID]repo.Plan
}

func newSharingStore(store repo.Store) *sharingStore {
	return &sharingStore{
		Store: store, messages: map[repo.ID]repo.NewMessage{},
		sessions: map[repo.ID]repo.Session{}, plans: map[repo.ID]repo.Plan{},
	}
}

func (s *sharingStore) Sessions() repo.Sessions { return sharingSessions{s.Store.Sessions(), s} }
func (s *sharingStore) Plans() repo.Plans       { return sharingPlans{s.Store.Plans(), s} }

type sharingSessions struct {
	repo.Sessions
	store *sharingStore
}

func (s sharingSessions) Append(ctx context.Context, id repo.ID, messages ...repo.NewMessage) ([]repo.Message, error) {
	stored, err := s.Sessions.Append(ctx, id, messages...)
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	for i := range stored {
		if _, known := s.store.messages[stored[i].ID]; !known {
			s.store.messages[stored[i].ID] = messages[i]
		}
	}
	return stored, err
}

func (s sharingSessions) Get(ctx context.Context, id repo.ID) (repo.Session, error) {
	session, err := s.Sessions.Get(ctx, id)
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if known, found := s.store.sessions[id]; found && err == nil && known.Version == session.Version {
		session.Metadata, session.Budget = known.Metadata, known.Budget
	}
	s.store.sessions[id] = session
	return session, err
}

func (s sharingSessions) MessagesFrom(ctx context.Context, id repo.ID, from int64, limit int) ([]repo.Message, error) {
	messages, err := s.Sessions.MessagesFrom(ctx, id, from, limit)
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	for i := range messages {
		if given, known := s.store.messages[messages[i].ID]; known && given.Payload != nil {
			messages[i].Payload = given.Payload
		}
	}
	return messages, err
}

type sharingPlans struct {
	repo.Plans
	store *sharingStore
}

func (p sharingPlans) Get(ctx context.Context, id repo.ID) (repo.Plan, error) {
	plan, err := p.Plans.Get(ctx, id)
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	if known, found := p.store.plans[id]; found && err == nil {
		plan.Projects, plan.Arguments, plan.Invariants = known.Projects, known.Arguments, known.Invariants
	}
	p.store.plans[id] = plan
	return plan, err
}

// cachingStore reads each plan once.
type cachingStore struct {
	repo.Store
	mu    sync.Mutex
	plans map[repo.ID]repo.Plan
}

func newCachingStore(store repo.Store) *cachingStore {
	return &cachingStore{Store: store, plans: map[repo.ID]repo.Plan{}}
}

func (s *cachingStore) Plans() repo.Plans { return cachingPlans{s.Store.Plans(), s} }

type cachingPlans struct {
	repo.Plans
	store *cachingStore
}

func (p cachingPlans) Get(ctx context.Context, id repo.ID) (repo.Plan, error) {
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	if plan, known := p.store.plans[id]; known {
		return plan, nil
	}
	plan, err := p.Plans.Get(ctx, id)
	if err == nil {
		p.store.plans[id] = plan
	}
	return plan, err
}

// uncheckedStore ignores arguments that the action does not take.
type uncheckedStore struct{ repo.Store }

func (s uncheckedStore) Plans() repo.Plans { return uncheckedPlans{s.Store.Plans()} }

type uncheckedPlans struct{ repo.Plans }

func (p uncheckedPlans) Use(ctx context.Context, action string, use repo.UseAction) (repo.Plan, error) {
	for {
		plan, err := p.Plans.Use(ctx, action, use)
		invalid, ok := errors.AsType[*repo.InvalidError](err)
		if !ok || !strings.HasPrefix(invalid.Field, "arguments") {
			return plan, err
		}
		var rest []repo.ArgumentValue
		for i, value := range use.Arguments {
			if invalid.Field != "arguments."+value.Name && invalid.Field != "arguments["+strconv.Itoa(i)+"]" {
				rest = append(rest, value)
			}
		}
		if len(rest) == len(use.Arguments) {
			return plan, err
		}
		use.Arguments = rest
	}
}

// looseStore has no transactions: what was done before an error stays.
type looseStore struct{ repo.Store }

func (s looseStore) InTx(ctx context.Context, run func(context.Context, repo.Repositories) error) error {
	return run(ctx, s.Store)
}

// queueStore has followers read what there is, and then take what appends of the process
// return for all that comes.
type queueStore struct {
	repo.Store
	mu     *sync.Mutex
	queues map[chan []repo.Message]repo.ID
}

func newQueueStore(store repo.Store) repo.Store {
	return queueStore{store, &sync.Mutex{}, map[chan []repo.Message]repo.ID{}}
}

func (s queueStore) Sessions() repo.Sessions { return queueSessions{s.Store.Sessions(), s} }

type queueSessions struct {
	repo.Sessions
	store queueStore
}

func (s queueSessions) Append(ctx context.Context, id repo.ID, messages ...repo.NewMessage) ([]repo.Message, error) {
	stored, err := s.Sessions.Append(ctx, id, messages...)
	meanwhile()
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	for queue, of := range s.store.queues {
		if of == id && err == nil {
			select {
			case queue <- stored:
			default: // the follower is slow
			}
		}
	}
	return stored, err
}

func (s queueSessions) Follow(ctx context.Context, id repo.ID, from int64) iter.Seq2[repo.Message, error] {
	return func(yield func(repo.Message, error) bool) {
		for message, err := range s.Messages(ctx, id, from) {
			if !yield(message, err) || err != nil {
				return
			}
		}
		queue := make(chan []repo.Message, 8)
		s.store.mu.Lock()
		s.store.queues[queue] = id
		s.store.mu.Unlock()
		for {
			select {
			case messages := <-queue:
				for _, message := range messages {
					if !yield(message, nil) {
						return
					}
				}
			case <-ctx.Done():
				yield(repo.Message{}, ctx.Err())
				return
			case <-time.After(time.Second): // pace: the suite has to fail, and to end
				yield(repo.Message{}, repo.ErrUnavailable)
				return
			}
		}
	}
}

// naiveStore answers a creation from what it read before it.
type naiveStore struct{ repo.Store }

func (s naiveStore) Actions() repo.Actions { return naiveActions{s.Store.Actions()} }

type naiveActions struct{ repo.Actions }

func (a naiveActions) Create(ctx context.Context, action repo.NewAction) (repo.Action, error) {
	_, before := a.Get(ctx, action.Name)
	meanwhile()
	created, err := a.Actions.Create(ctx, action)
	if errors.Is(before, repo.ErrNotFound) && errors.Is(err, repo.ErrConflict) {
		name, definition, err := rules.NormalizeAction("", action)
		return repo.Action{Name: name, ActionDefinition: definition, Version: 1}, err
	}
	return created, err
}

// lookingStore looks for the plan with a use's key before it makes one.
type lookingStore struct {
	repo.Store

	mu    sync.Mutex
	plans map[string]repo.ID // by what their uses have in common
}

func newLookingStore(s repo.Store) repo.Store {
	return &lookingStore{Store: s, plans: map[string]repo.ID{}}
}

func (s *lookingStore) Plans() repo.Plans { return lookingPlans{s.Store.Plans(), s} }

type lookingPlans struct {
	repo.Plans

	store *lookingStore
}

func (p lookingPlans) Use(ctx context.Context, action string, use repo.UseAction) (repo.Plan, error) {
	key := repo.JoinKey(use.Namespace, use.SessionID.String(), use.Key)
	p.store.mu.Lock()
	id, found := p.store.plans[key]
	p.store.mu.Unlock()
	if found {
		return p.Get(ctx, id)
	}
	meanwhile()
	use.Key = ""
	plan, err := p.Plans.Use(ctx, action, use)
	if err == nil {
		p.store.mu.Lock()
		p.store.plans[key] = plan.ID
		p.store.mu.Unlock()
	}
	return plan, err
}

package budget

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed-df90f812/agentstore/clock"
	"github.com/seed-df90f812/agentstore/repo"
)

// Options of a Keeper. The zero value is the default.
type Options struct {
	// ClockAge is how old a reading of the database's clock may be, from which a Keeper computes the time. Zero: a minute.
	ClockAge time.Duration
	// Keep is how long after its begin Sweep keeps what was used in a day or a month, at least
	// KeepAtLeast. Zero: for ever.
	Keep time.Duration
}

// KeepAtLeast is longer than a month with the longest life.
const KeepAtLeast = 31*24*time.Hour + MaxLife

// Keeper keeps budgets in a store. A view's budgets are in its namespace. It is safe for concurrent use.
type Keeper struct {
	store   repo.Store
	options Options
	clock   *clock.Clock

	mu    sync.Mutex
	swept map[string]time.Time // by the name: when a refusal made this process look for what has expired
}

// New returns a Keeper. It reads and writes nothing. Errors: InvalidError.
func New(store repo.Store, options Options) (*Keeper, error) {
	err := cmp.Or(
		invalidIf(store == nil, "store", "is nil"),
		invalidIf(options.ClockAge < 0, "clock_age", "is negative"),
		invalidIf(options.Keep != 0 && options.Keep < KeepAtLeast, "keep", "is below 61 days"),
	)
	return &Keeper{
		store: store, options: options, clock: clock.New(store, options.ClockAge), swept: map[string]time.Time{},
	}, err
}

// attempts bounds how often a call finds that another one has moved a record.
const attempts = 3

// Reserve reserves the worst case of a call under all of the limits, or under none. Each counts it in the period that
// it is by the database's clock. The same request again returns the reservation as it is stored, if that is held and
// its life has not ended; otherwise it is a new one. If a limit refuses it, Reserve gives back what has expired under
// the limit's name, at most once a second in this process, and tries again.
//
// Errors: InvalidError; ExceededError; ExistsError if another request has the id; errors of State.Change.
// After ErrUnknownOutcome repeat it with the same id.
func (k *Keeper) Reserve(ctx context.Context, request Request) (Reservation, error) {
	_, r, err := k.reserve(ctx, request, false, k.alone)
	return r, err
}

// ReserveTurn is Reserve in a turn: both are stored, in one commit, or neither. A turn that was stored already is
// answered as it is, with the reservation, if it is held, as that was stored; to be recognized after its end, or with
// another request, it needs repo.Turn.Existing.
//
// Errors: as of Reserve, and of Sessions.AppendTurn; NotFoundError of the kind "reservation", with the turn, if
// the turn was stored already and the reservation was settled, was released or has expired.
func (k *Keeper) ReserveTurn(ctx context.Context, turn repo.Turn, request Request) (
	repo.AppendedTurn, Reservation, error,
) {
	return k.reserve(ctx, request, true, k.with(turn))
}

// writer makes changes, in a turn or alone: then Scopes is all that it returns, and Repeated if there are none.
type writer func(context.Context, []repo.StateChange) (repo.AppendedTurn, error)

func (k *Keeper) alone(ctx context.Context, changes []repo.StateChange) (repo.AppendedTurn, error) {
	if len(changes) == 0 {
		return repo.AppendedTurn{Repeated: true}, nil
	}
	scopes, err := k.store.State().Change(ctx, changes)
	return repo.AppendedTurn{Scopes: scopes}, err
}

func (k *Keeper) with(turn repo.Turn) writer {
	own := slices.Clip(turn.State)
	return func(ctx context.Context, changes []repo.StateChange) (repo.AppendedTurn, error) {
		turn.State = append(own, changes...)
		return k.store.Sessions().AppendTurn(ctx, turn)
	}
}

// reserve reserves in a turn, or alone.
func (k *Keeper) reserve(ctx context.Context, request Request, inTurn bool, write writer) (
	repo.AppendedTurn, Reservation, error,
) {
	r, changes, err := k.Propose(ctx, request)
	if err != nil {
		return repo.AppendedTurn{}, r, err
	}
	for i := 1; ; i++ {
		appended, err := write(ctx, changes)
		if err == nil && !appended.Repeated {
			r.Wrote(appended.Scopes)
			return appended, r, nil
		}
		as, again, err := k.stored(ctx, r, inTurn, err)
		if !again || i == attempts {
			return appended, as, err
		}
		changes = as.opening()
	}
}

// stored returns the reservation that has the id of r, or true and what to write next. err is why r could not be
// written; nil: its turn is stored. A reservation that is there already does not mean that the turn is.
func (k *Keeper) stored(ctx context.Context, r Reservation, inTurn bool, err error) (Reservation, bool, error) {
	exceeded, _ := errors.AsType[*ExceededError](r.refusal(err))
	turn, _ := errors.AsType[*repo.ExistsError](err)
	switch {
	case exceeded != nil:
		freed, failed := k.sweepRefused(ctx, exceeded.Limit.Name, r.At)
		return r, freed > 0, cmp.Or(failed, error(exceeded))
	case r.moved(err): // its life may have ended
		_, failed := k.sweep(ctx, r.Parts[0].Name, heldPrefix+r.ID, r.At)
		err = cmp.Or(failed, error(&repo.ExistsError{Kind: "reservation", Name: r.ID, Field: "request"}))
	case err != nil && (turn == nil || turn.Kind != "turn"):
		return r, false, err
	}
	found, missing := k.Find(ctx, r.Parts[0].Name, r.ID)
	switch gone := errors.Is(missing, repo.ErrNotFound); {
	case err == nil || missing != nil && !gone:
		return found, false, missing
	case gone && turn == nil:
		return r, true, err
	case gone || !r.same(found) || inTurn && turn == nil:
		return r, false, err
	case turn == nil:
		return found, false, nil
	}
	return found, true, err // with which the turn has the contents that it was stored with
}

// Propose returns the reservation of a request, and the changes that reserve it, for a transaction of the caller's that
// begins afterwards. Give the changes to State.Change there, and what that returns to Wrote. LimitExceededError is
// there for a limit, and VersionConflictError for an id that has a reservation. Errors: InvalidError; the store's.
func (k *Keeper) Propose(ctx context.Context, request Request) (Reservation, []repo.StateChange, error) {
	now, err := k.clock.Now(ctx)
	if err != nil {
		return Reservation{}, nil, err
	}
	r, err := propose(request, now)
	return r, r.opening(), err
}

// Find returns the reservation with this id that is held under a name, so that a process can settle what another one
// has reserved. Errors: NotFoundError of the kind "reservation": it was settled or has expired, or there was none.
func (k *Keeper) Find(ctx context.Context, name, id string) (Reservation, error) {
	r, version, err := get[Reservation](ctx, k.store.State(), name, heldPrefix+id)
	if err != nil || version == 0 {
		return Reservation{}, cmp.Or(err, error(&repo.NotFoundError{Kind: "reservation", Name: id}))
	}
	return k.locate(ctx, r)
}

// locate returns the reservation with its records as they are now: without the records of another one that got its
// id, and without any if it was settled.
func (k *Keeper) locate(ctx context.Context, r Reservation) (Reservation, error) {
	r.Parts = slices.Clone(r.Parts)
	for i := range r.Parts {
		p := &r.Parts[i]
		held, version, err := get[Reservation](ctx, k.store.State(), p.Name, heldPrefix+r.ID)
		_, expired, failed := get[any](ctx, k.store.State(), p.Name, r.expiredKey())
		if err = cmp.Or(err, failed); err != nil {
			return r, err
		}
		if p.Version, p.Expired = expired, expired > 0; version > 0 && held.At.Equal(r.At) {
			p.Version, p.Expired = version, false
		}
	}
	return r, nil
}

// get returns a value under a name, and its version. Version 0: it does not exist.
func get[T any](ctx context.Context, state repo.State, name, key string) (value T, version int64, err error) {
	stored, err := state.Get(ctx, scopeOf(name), key)
	if errors.Is(err, repo.ErrNotFound) {
		return value, 0, nil
	}
	if err == nil && json.Unmarshal(stored.Value, &value) != nil {
		err = &repo.RefusedError{Kind: "state", Scope: scopeOf(name), Name: key, Reason: "is nothing of a budget"}
	}
	return value, stored.Version, err
}

// Used returns what is reserved and settled under a limit in the current period, in its unit. Errors: InvalidError; the
// store's.
func (k *Keeper) Used(ctx context.Context, limit Limit) (int64, error) {
	r, _, err := k.Propose(ctx, Request{ID: "used", Limits: []Limit{limit}})
	if err != nil {
		return 0, err
	}
	used, _, err := get[int64](ctx, k.store.State(), limit.Name, r.Parts[0].key())
	return used, err
}

package budget

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// Use is what a call has used.
type Use struct {
	Amount

	// Over also records what passes a limit, because it was spent. Without it, what passes a limit is refused.
	Over bool
}

// Settled says what settling a reservation has done.
type Settled struct {
	Late     bool // the reservation had expired: all that was used was added to what is used now
	Repeated bool // it was settled or released before: nothing was changed now, whatever the amounts
}

// Settle replaces what was reserved by what was used, under all limits or none, in the periods of the reservation. It
// may be repeated. Less than was reserved is never refused, also if a limit was lowered since. What is more, or late,
// is added if all limits, as they were when it was reserved, allow it. The keeper must be of the namespace in which it
// was reserved.
//
// Errors: ExceededError: the reservation stays as it is; settle it with Use.Over, since the money is spent.
// NotFoundError of the kind "reservation": the store never had it, or forgot it (its name was erased and not used
// since, or it ended a week ago), and whether it was settled is unknown. InvalidError; errors of State.Change.
func (k *Keeper) Settle(ctx context.Context, r Reservation, use Use) (Settled, error) {
	_, settled, err := k.settle(ctx, r, use, k.alone)
	return settled, err
}

// Release gives back a reservation of which nothing was used. It may be repeated. Errors: as of Settle,
// without ExceededError.
func (k *Keeper) Release(ctx context.Context, r Reservation) error {
	_, err := k.Settle(ctx, r, Use{})
	return err
}

// SettleTurn is Settle in a turn: both are stored, in one commit, or neither. The turn is stored without a settlement
// if the reservation was settled before. Errors: as of Settle, and of Sessions.AppendTurn. Then nothing was stored.
func (k *Keeper) SettleTurn(ctx context.Context, turn repo.Turn, r Reservation, use Use) (
	repo.AppendedTurn, Settled, error,
) {
	return k.settle(ctx, r, use, k.with(turn))
}

func (k *Keeper) settle(ctx context.Context, r Reservation, use Use, write writer) (repo.AppendedTurn, Settled, error) {
	err := cmp.Or(invalidIf(r.ID == "" || !r.has(false) && !r.has(true), "reservation", "was not stored"),
		invalidIf(use.Cost < 0 || use.Tokens < 0, "use", "is negative"))
	for i := 0; err == nil; i++ {
		changes := r.closing(use)
		appended, failed := write(ctx, changes)
		exists, is := errors.AsType[*repo.ExistsError](failed)
		switch err = failed; {
		case err == nil:
			repeated := appended.Repeated || len(changes) == 0
			return appended, Settled{Late: !repeated && r.has(true), Repeated: repeated}, nil
		case i == attempts-1:
		case is && exists.Kind == "turn": // it was stored when the reservation had expired, or else when it was settled
			r.Parts, err = slices.Clone(r.Parts), nil
			for of := range r.Parts {
				r.Parts[of].Expired, r.Parts[of].Version = true, int64(1-min(i, 1))
			}
		case r.moved(err):
			r, err = k.relocate(ctx, r)
		}
	}
	return repo.AppendedTurn{}, Settled{}, r.refusal(err)
}

// remembered is how long it is kept that a reservation has expired: a day longer than is promised, since clocks may be
// wrong.
const remembered = 8 * 24 * time.Hour

// relocate returns the reservation with its records as they are now, unless this database never had it (it is another
// namespace, or was restored to an earlier time), or it may be forgotten that it has expired.
func (k *Keeper) relocate(ctx context.Context, r Reservation) (Reservation, error) {
	found, err := k.locate(ctx, r)
	if err != nil || found.has(true) || found.has(false) {
		return found, err
	}
	now, err := k.clock.Now(ctx)
	page, failed := k.store.State().List(ctx, scopeOf(r.Parts[0].Name), heldPrefix, repo.Page{Limit: 1})
	if page.Version < r.Parts[0].Version || now.After(r.At.Add(r.Life+remembered-24*time.Hour)) {
		err = cmp.Or(err, failed, error(&repo.NotFoundError{Kind: "reservation", Name: r.ID, Gone: true}))
	}
	return found, cmp.Or(err, failed)
}

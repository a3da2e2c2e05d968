package budget

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// Request asks for a reservation.
type Request struct {
	// ID is the idempotency key, of 1 to repo.MaxNameBytes bytes, unique under each name of the limits as long as the
	// reservation is there: two calls with one ID reserve once. A turn's id needs its session's key before it (JoinKey).
	ID     string
	Limits []Limit       // 1 to MaxLimits, of which no two count the same
	Most   Amount        // the worst case
	Life   time.Duration // zero: DefaultLife; otherwise MinLife to MaxLife
}

// The bounds of a request.
const (
	MaxLimits   = 100
	DefaultLife = 10 * time.Minute
	MinLife     = time.Second
	MaxLife     = 30 * 24 * time.Hour
)

// Reservation is what was reserved. As JSON it can be given to another process, which settles it.
type Reservation struct {
	ID    string        `json:"id"`
	At    time.Time     `json:"at"` // by the database's clock, within some milliseconds
	Life  time.Duration `json:"life"`
	Most  Amount        `json:"most"`
	Parts []Part        `json:"parts"` // in the order of the limits
}

// Part is a reservation's part under one limit.
type Part struct {
	Limit

	Instance string `json:"instance,omitempty"` // of the period, such as "2026-11": it counts there whenever it is settled
	Version  int64  `json:"version,omitempty"`  // of the reservation's record under the limit's name; 0: it has none
	Expired  bool   `json:"expired,omitempty"`  // the record says that the reservation has expired
}

// key returns the key of what was reserved and settled in the period.
func (p Part) key() string {
	return usedPrefix + repo.JoinKey(string(p.Unit), string(p.Period), p.Zone, p.Instance)
}

// A reservation's record, under each of its names, has a key that begins so: while it is held, and after it has
// expired.
const (
	heldPrefix    = "held/"
	expiredPrefix = "expired/"
	usedPrefix    = "used/" // of what was reserved and settled in a period
)

// expiredKey is of this reservation alone: others may have had the id.
func (r Reservation) expiredKey() string {
	return expiredPrefix + r.ID + "/" + strconv.FormatInt(r.At.UnixNano(), 10)
}

// propose returns the reservation of a request at a time.
func propose(request Request, now time.Time) (Reservation, error) {
	r := Reservation{ID: request.ID, At: now.UTC(), Life: cmp.Or(request.Life, DefaultLife), Most: request.Most}
	err := cmp.Or(
		invalidIf(r.ID == "", "id", "is empty"),
		invalidIf(len(r.ID) > repo.MaxNameBytes, "id", "is too long"),
		invalidIf(len(request.Limits) == 0 || len(request.Limits) > MaxLimits, "limits", "are none or too many"),
		invalidIf(r.Life < MinLife || r.Life > MaxLife, "life", "is below a second or above 30 days"),
		invalidIf(r.Most.Cost < 0 || r.Most.Tokens < 0, "most", "is negative"),
	)
	seen := map[Limit]bool{}
	for _, l := range request.Limits[:min(len(request.Limits), MaxLimits)] {
		limit, invalid := l.normal()
		instance, _, failed := limit.instance(now)
		r.Parts = append(r.Parts, Part{Limit: limit, Instance: instance})
		limit.Max = 0
		err = cmp.Or(err, invalid, failed, invalidIf(seen[limit], "limits", "count the same twice"))
		seen[limit] = true
	}
	return r, err
}

// same reports whether the stored reservation is the one that r asks for, perhaps earlier, and with limits of other
// sizes.
func (r Reservation) same(stored Reservation) bool {
	return r.Life == stored.Life && r.Most == stored.Most && slices.EqualFunc(r.Parts, stored.Parts, func(a, b Part) bool {
		a.Max = b.Max
		return a.Limit == b.Limit
	})
}

// has reports whether the reservation has a record that says that it has, or has not, expired.
func (r Reservation) has(expired bool) bool {
	return slices.ContainsFunc(r.Parts, func(p Part) bool { return p.Version > 0 && p.Expired == expired })
}

// isFirst reports whether a part is the first one of its name.
func (r Reservation) isFirst(part int) bool {
	return slices.IndexFunc(r.Parts, func(p Part) bool { return p.Name == r.Parts[part].Name }) == part
}

// opening returns the changes that reserve.
func (r Reservation) opening() (changes []repo.StateChange) {
	r.Wrote(nil)
	text, _ := json.Marshal(r) //nolint:errchkjson // an empty value, of a time after the year 9999, is refused
	for i, p := range r.Parts {
		held := repo.StateChange{Scope: scopeOf(p.Name), Key: heldPrefix + r.ID, Value: text, IfVersion: new(int64)}
		if r.isFirst(i) {
			changes = append(changes, held)
		}
		changes = p.add(changes, r.Most.of(p.Unit), false)
	}
	return changes
}

// closing returns the changes that settle, as far as the reservation has records.
func (r Reservation) closing(use Use) (changes []repo.StateChange) {
	for i, p := range r.Parts {
		key, by := heldPrefix+r.ID, use.of(p.Unit)-r.Most.of(p.Unit)
		if p.Expired {
			key, by = r.expiredKey(), use.of(p.Unit)
		}
		gone := repo.StateChange{Scope: scopeOf(p.Name), Key: key, Op: repo.StateRemove, IfVersion: &p.Version}
		if p.Version > 0 && r.isFirst(i) {
			changes = append(changes, gone)
		}
		if p.Version > 0 {
			changes = p.add(changes, by, use.Over)
		}
	}
	return changes
}

// add adds an increment to changes, unless it is of nothing.
func (p Part) add(changes []repo.StateChange, by int64, over bool) []repo.StateChange {
	change := repo.StateChange{Scope: scopeOf(p.Name), Key: p.key(), Op: repo.StateIncrement, By: by}
	if by > 0 && !over {
		change.AtMost = &p.Max
	}
	if by == 0 {
		return changes
	}
	return append(changes, change)
}

// Wrote notes the versions that the changes of [Keeper.Propose] got.
func (r *Reservation) Wrote(scopes []repo.ScopeVersion) {
	versions := map[repo.Scope]int64{}
	for _, s := range scopes {
		versions[s.Scope] = s.Version
	}
	r.Parts = slices.Clone(r.Parts)
	for i, p := range r.Parts {
		r.Parts[i].Version = versions[scopeOf(p.Name)]
	}
}

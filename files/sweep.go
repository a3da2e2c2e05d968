package files

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/seed-df90f812/agentstore/clock"
	"github.com/seed-df90f812/agentstore/repo"
)

// Swept is what a sweep has done.
type Swept struct {
	References int  // to bytes, of versions that are gone
	Blobs      int  // that were deleted, or were noted and never written
	More       bool // the round is not at its end
}

// Sweep removes what nothing refers to any more: the references of deleted sessions and erased users, the remains of
// failed saves, and bytes, for whose last reference Options.Grace has passed by the database's clock. It looks at limit
// keys (zero: 1,000) from where the last sweep ended, in whatever process: call it now and then, and again while there
// are more. Bytes are gone after a second round, once the grace has passed. Several may sweep at once, and each may be
// ended at any time. What fails is left for the next round, and the others are done; the errors are joined.
func (f *Files) Sweep(ctx context.Context, limit int) (swept Swept, err error) {
	if err := invalidIf(limit < 0, "limit", "is negative"); err != nil {
		return swept, err
	}
	s := &sweep{Files: f, swept: &swept}
	at, err := s.begin(ctx)
	var failed []error
	for left := cmp.Or(limit, repo.MaxPageSize); err == nil && left > 0 && at.Step < len(digits)*len(steps); {
		kind := steps[at.Step%len(steps)]
		scope := shard(digits[at.Step/len(steps):])
		var found repo.StatePage
		page := repo.Page{Limit: min(left, repo.MaxPageSize), After: at.After}
		if found, err = f.store.State().List(ctx, scope, kind.prefix, page); err != nil {
			break
		}
		failed = append(failed, kind.each(s, ctx, scope, found.Values)...)
		if left -= max(len(found.Values), 1); found.Next == "" {
			at.Step++
		}
		at.After = found.Next
		err = ctx.Err()
	}
	if swept.More = at.Step < len(digits)*len(steps); !swept.More {
		at = place{}
	}
	if err == nil {
		_, err = f.store.State().Change(ctx, []repo.StateChange{set(sweepScope, "next", encode(at))})
	}
	return swept, errors.Join(append(failed, err)...)
}

var sweepScope = repo.Scope{Name: "files/sweep"}

// place is where a sweep goes on: a step, from 0, and the page of it.
type place struct {
	Step  int    `json:"step"`
	After string `json:"after"`
}

type sweep struct {
	*Files
	now   time.Time
	swept *Swept
}

// steps are what a sweep does in each shard. What one leaves in trash, the last one deletes in the same round.
var steps = []struct {
	prefix string
	each   func(*sweep, context.Context, repo.Scope, []repo.StateValue) []error
}{
	{"gone/", (*sweep).references},
	{"ref/", (*sweep).references},
	{notePrefix, one((*sweep).note)},
	{"free/", one((*sweep).bytes)},
	{"trash/", one((*sweep).trash)},
}

// begin reads the database's clock, and where the last sweep has ended.
func (s *sweep) begin(ctx context.Context) (at place, err error) {
	if s.now, err = clock.New(s.store, 0).Now(ctx); err != nil {
		return at, err
	}
	if err = get(ctx, s.store.State(), sweepScope, "next", &at); errors.Is(err, repo.ErrNotFound) {
		err = nil
	}
	return at, err
}

// end removes a key, as long as that has not changed.
func end(scope repo.Scope, v repo.StateValue) repo.StateChange {
	change := remove(scope, v.Key)
	change.IfVersion = &v.Version
	return change
}

func (s *sweep) isOld(v repo.StateValue) bool { return s.now.Sub(v.UpdatedAt) > s.options.Grace }

// one does something with each key, by what follows the prefix. A conflict says that another was faster.
func one(do func(s *sweep, ctx context.Context, scope repo.Scope, v repo.StateValue, name string) error) func(
	*sweep, context.Context, repo.Scope, []repo.StateValue,
) []error {
	return func(s *sweep, ctx context.Context, scope repo.Scope, values []repo.StateValue) (failed []error) {
		for _, v := range values {
			_, name, _ := strings.Cut(v.Key, "/")
			if err := do(s, ctx, scope, v, name); err != nil && !errors.Is(err, repo.ErrConflict) {
				failed = append(failed, err)
			}
		}
		return failed
	}
}

// references removes the references of owners that no longer have the version.
func (s *sweep) references(ctx context.Context, scope repo.Scope, values []repo.StateValue) []error {
	gone := map[Owner]bool{}
	var sessions []repo.ID
	for _, v := range values {
		owner := ownerOf(v.Key)
		if id := owner.scope.SessionID; !id.IsZero() && !slices.Contains(sessions, id) {
			sessions, gone[owner] = append(sessions, id), true
		}
	}
	if len(sessions) > 0 {
		read, err := s.store.Sessions().Read(ctx, repo.ReadSessions{IDs: sessions})
		if err != nil {
			return []error{err}
		}
		for i, found := range read.Sessions {
			gone[OfSession(sessions[i])] = found == nil
		}
	}
	return one(func(s *sweep, ctx context.Context, scope repo.Scope, v repo.StateValue, name string) error {
		owner, deleted := ownerOf(v.Key), strings.HasPrefix(v.Key, "gone/")
		if !gone[owner] && !owner.scope.SessionID.IsZero() && !deleted {
			return nil // Delete says which versions of a session that is there are gone
		}
		return s.reference(ctx, scope, v, name, owner)
	})(s, ctx, scope, values)
}

func ownerOf(key string) Owner {
	parts := append(strings.SplitN(key, "/", 3), "", "")
	return parseOwner(parts[2])
}

// reference removes the reference that a key is about, unless the owner has the version.
func (s *sweep) reference(ctx context.Context, scope repo.Scope, v repo.StateValue, name string, owner Owner) error {
	state := s.store.State()
	id, _, _ := strings.Cut(name, "/")
	found, err := v, error(nil)
	gone := strings.HasPrefix(v.Key, "gone/")
	if gone { // read before the owner is asked: who restores a session refers again
		found, err = state.Get(ctx, scope, "ref/"+name)
	}
	if err == nil {
		if err = get(ctx, state, owner.scope, idKey(id), new(string)); errors.Is(err, repo.ErrNotFound) {
			err = s.drop(ctx, scope, found, id, owner)
		}
	}
	if gone && (err == nil || errors.Is(err, repo.ErrNotFound)) {
		_, err = state.Change(ctx, []repo.StateChange{end(scope, v)})
	}
	return err
}

// drop removes a reference as it was found, and notes that the bytes may be in no use.
func (s *sweep) drop(ctx context.Context, scope repo.Scope, found repo.StateValue, id string, owner Owner) error {
	var at ref
	if err := decode(found, &at); err != nil {
		return err
	}
	_, err := s.store.State().Change(ctx, []repo.StateChange{
		end(scope, found), remove(scope, useKey(at.SHA256, id, owner)), set(scope, "free/"+at.SHA256, yes),
	})
	if err == nil {
		s.swept.References++
	}
	return err
}

// note gives up a blob whose upload has taken too long, or whose process died.
func (s *sweep) note(ctx context.Context, scope repo.Scope, v repo.StateValue, name string) error {
	if !s.isOld(v) {
		return nil
	}
	_, err := s.store.State().Change(ctx, []repo.StateChange{end(scope, v), set(scope, "trash/"+name, yes)})
	return err
}

// bytes lets go of bytes that are in no use. It has locked their scope before it looks.
func (s *sweep) bytes(ctx context.Context, scope repo.Scope, v repo.StateValue, sum string) error {
	if !s.isOld(v) {
		return nil
	}
	return s.store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		if _, err := tx.State().Change(ctx, []repo.StateChange{end(scope, v)}); err != nil {
			return err
		}
		used, err := tx.State().List(ctx, scope, "use/"+sum+"/", repo.Page{Limit: 1})
		if err != nil || len(used.Values) > 0 {
			return err
		}
		var blob string
		if err := get(ctx, tx.State(), scope, "object/"+sum, &blob); errors.Is(err, repo.ErrNotFound) {
			return nil
		} else if err != nil {
			return err
		}
		_, err = tx.State().Change(ctx, []repo.StateChange{remove(scope, "object/"+sum), set(scope, "trash/"+blob, yes)})
		return err
	})
}

// trash deletes a blob that nothing refers to, and never will.
func (s *sweep) trash(ctx context.Context, scope repo.Scope, v repo.StateValue, blob string) error {
	if err := s.blobs.Delete(ctx, blob); err != nil {
		return err
	}
	s.swept.Blobs++
	_, err := s.store.State().Change(ctx, []repo.StateChange{remove(scope, v.Key)})
	return err
}

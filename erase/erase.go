// Package erase removes what is stored of a person: sessions with all that belongs to them, shared scopes of state,
// leases and streams, the plans that were made for the sessions, and what the person did and said in plans of others
// and in the audit trail. docs/privacy.md says what it leaves.
package erase

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/internal/pages"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/removal"
)

// Request names the person to erase, and the person who asked for it.
type Request struct {
	Owner string // of the sessions, and one of the person's names; required
	// Namespaces are the namespaces in which the names are the person's: others stay untouched. Empty: all.
	Namespaces []string
	// Scopes are the names of the shared scopes of state that are the person's.
	Scopes []string
	// Actors are the person's other names: as actors, users, and owners of leases and streams.
	Actors []string
	// Reason and RequestedBy are recorded in the audit trail. They must not name the person.
	Reason, RequestedBy string
	// Key makes the receipt's digests, at least 16 bytes. Keep it apart from the database and its backups.
	Key []byte
}

// Receipt counts what an erasure has removed. It contains no names.
type Receipt struct {
	ID repo.ID   `json:"id"`
	At time.Time `json:"at"`
	// Namespaces are the request's; none: all. Names has the keyed digests of the owner and the actors, and Scopes the
	// digests of the scopes, for [Replay].
	Namespaces []string `json:"namespaces,omitempty"`
	Names      []string `json:"names"`
	Scopes     []string `json:"scopes"`
	Sessions   int64    `json:"sessions"`
	Messages   int64    `json:"messages"`
	StateKeys  int64    `json:"state_keys"`
	Plans      int64    `json:"plans"`
	Leases     int64    `json:"leases"`
	Actors     int64    `json:"actors"` // sessions of others that have forgotten their actor
	// Forgotten.Texts are the messages that forks of others still have. They say "erased", and Messages does not count
	// them.
	removal.Forgotten
}

// Subject erases a person, and records the erasure in the audit trail. It may be repeated, and after an error it should
// be: it then goes on. Before it removes anything it makes sure that no legal hold keeps the person's data.
//
// Errors: InvalidError; RefusedError of the kind "hold"; ErrPermission, on PostgreSQL for all but the owner of the
// tables; the store's, and the context's, with what was removed so far.
func Subject(ctx context.Context, store repo.Store, request Request) (Receipt, error) {
	receipt := Receipt{ID: repo.NewID(), At: time.Now().UTC()}
	if err := request.check(); err != nil {
		return receipt, err
	}
	stored, err := removalOf(store)
	if err != nil {
		return receipt, err
	}
	e := &erasure{store: store, stored: stored, Request: request, receipt: &receipt}
	receipt.Namespaces = request.Namespaces
	for _, name := range e.names() {
		receipt.Names = append(receipt.Names, digest(e.Key, ofName, name))
	}
	for _, scope := range e.Scopes {
		receipt.Scopes = append(receipt.Scopes, digest(e.Key, ofScope, scope))
	}
	err = e.run(ctx)
	return receipt, err
}

// Check returns the error with which Subject would refuse to begin, and removes nothing. Before a person is erased in
// one of several stores, check all: a hold may be in another one.
func Check(ctx context.Context, store repo.Store, request Request) error {
	if err := request.check(); err != nil {
		return err
	}
	stored, err := removalOf(store)
	if err != nil {
		return err
	}
	return (&erasure{store: store, stored: stored, Request: request, receipt: &Receipt{}}).begin(ctx)
}

func (r Request) check() error {
	for field, names := range map[string][]string{
		"owner": {r.Owner}, "actors": r.Actors, "scopes": r.Scopes,
		"namespaces": r.Namespaces,
	} {
		if slices.Contains(names, "") {
			return &repo.InvalidError{Field: field, Reason: "has an empty name"}
		}
	}
	return checkKey(r.Key)
}

// What digests are of.
const ofName, ofScope = "name", "scope"

func checkKey(key []byte) error {
	if len(key) < 16 {
		return &repo.InvalidError{Field: "key", Reason: "has less than 16 bytes"}
	}
	return nil
}

type erasure struct {
	Request
	store   repo.Store
	stored  removal.Store // of the store
	receipt *Receipt
	// everywhere: the request names no namespaces.
	everywhere bool
	// forked are sessions of which forks had messages.
	forked []repo.ID
}

// names are the person's names. In a replay the owner, or an actor, may be gone already.
func (e *erasure) names() []string {
	return slices.DeleteFunc(append([]string{e.Owner}, e.Actors...), func(name string) bool { return name == "" })
}

// begin finds out, before anything is removed, whether all may be.
func (e *erasure) begin(ctx context.Context) error {
	if err := e.forget(ctx, removal.Person{}); err != nil {
		return err
	}
	if e.everywhere = len(e.Namespaces) == 0; e.everywhere {
		var err error
		if e.Namespaces, err = e.stored.Namespaces(ctx); err != nil {
			return err
		}
	}
	return e.checkHolds(ctx)
}

func (e *erasure) run(ctx context.Context) error {
	if err := e.begin(ctx); err != nil {
		return err
	}
	if err := e.sharedOfAll(ctx); err != nil {
		return err
	}
	for _, namespace := range e.Namespaces {
		if err := e.sessions(ctx, namespace); err != nil {
			return err
		}
	}
	person := removal.Person{Names: e.names(), Namespaces: e.Namespaces}
	if e.everywhere {
		person.Namespaces = nil // also where no session, lease or scope is
	}
	if err := e.forget(ctx, person); err != nil {
		return err
	}
	if err := e.rest(ctx); err != nil {
		return err
	}
	slices.SortFunc(e.forked, repo.ID.Compare)
	own, all, err := e.stored.Kept(ctx, slices.Compact(e.forked))
	if err != nil {
		return err
	}
	e.receipt.Texts = all
	e.receipt.Messages -= own
	details, err := json.Marshal(struct {
		Entity string `json:"entity"`
		Reason string `json:"reason,omitempty"`
		Receipt
	}{"person", e.Reason, *e.receipt})
	if err != nil {
		return err
	}
	return e.store.Audit().Record(ctx, repo.AuditEntry{
		ID: e.receipt.ID, OccurredAt: e.receipt.At, Type: events.EntityDeleted, Actor: e.RequestedBy, Details: details,
	})
}

// sharedOfAll erases the scopes, and releases the leases, before their sessions: the namespace of a lease is unknown
// once its session is gone.
func (e *erasure) sharedOfAll(ctx context.Context) error {
	views, are := e.store.(interface {
		In(namespace string) repo.Store
	})
	// The store itself has the scopes of DefaultNamespace alone, and leases of sessions and plans wherever they are.
	if e.everywhere || !are && slices.Contains(e.Namespaces, repo.DefaultNamespace) {
		if err := e.shared(ctx, e.store); err != nil {
			return err
		}
	}
	if !are {
		return nil
	}
	for _, namespace := range e.Namespaces {
		if err := e.shared(ctx, views.In(namespace)); err != nil {
			return err
		}
	}
	return nil
}

// shared erases the scopes, and releases the leases.
func (e *erasure) shared(ctx context.Context, store repo.Store) error {
	for _, scope := range e.Scopes {
		keys, err := store.State().Erase(ctx, scope)
		if e.receipt.StateKeys += keys; err != nil {
			return err
		}
	}
	for _, owner := range e.names() {
		released, err := store.Leases().ReleaseAll(ctx, owner)
		if e.receipt.Leases += released; err != nil {
			return err
		}
	}
	return nil
}

// forget replaces what stays.
func (e *erasure) forget(ctx context.Context, person removal.Person) error {
	forgotten, err := e.stored.Forget(ctx, person)
	e.receipt.Add(forgotten)
	return err
}

func removalOf(store repo.Store) (removal.Store, error) {
	keeper, is := store.(removal.Keeper)
	if !is {
		return nil, &repo.InvalidError{
			Field:  "store",
			Reason: "is a view, or another that cannot remove what is elsewhere: use the whole store",
		}
	}
	return keeper.Removal(), nil
}

// checkHolds finds the holds of namespaces and owners, and holds of the owner's sessions, of forks that have their
// messages, and of audit entries about them.
func (e *erasure) checkHolds(ctx context.Context) error {
	theirs := func(id repo.ID) (bool, error) {
		session, err := e.store.Sessions().Get(ctx, id)
		if errors.Is(err, repo.ErrNotFound) {
			return false, nil
		}
		return err == nil && e.Owner != "" && session.Owner == e.Owner && slices.Contains(e.Namespaces, session.Namespace),
			err
	}
	refused := func(id repo.ID, held bool, err error) error {
		if err == nil && held {
			return &repo.RefusedError{Kind: "hold", ID: id, Reason: "is kept by a legal hold"}
		}
		return err
	}
	err := pages.Items(func(page repo.Page) (repo.List[repo.LegalHold], error) {
		return e.store.Sessions().Holds(ctx,
			page)
	}, func(h repo.LegalHold) error {
		if h.Namespace != "" {
			return refused(repo.ID{}, slices.Contains(e.Namespaces, h.Namespace) && (h.Owner == "" || h.Owner == e.Owner), nil)
		}
		held, err := theirs(h.SessionID)
		return refused(h.SessionID, held, err)
	})
	if err != nil {
		return err
	}
	if e.Owner != "" {
		fork, err := e.stored.HeldFork(ctx, e.Owner, e.Namespaces)
		if err := refused(fork, !fork.IsZero(), err); err != nil {
			return err
		}
	}
	keeper, is := e.store.(auditlog.Keeper)
	if !is {
		return nil
	}
	holds, err := keeper.AuditLog().Holds(ctx)
	for _, h := range holds {
		id := h.SessionID
		if id.IsZero() {
			plan, err := e.store.Plans().Get(ctx, h.PlanID)
			if err != nil && !errors.Is(err, repo.ErrNotFound) {
				return err
			}
			if id = plan.SessionID; id.IsZero() {
				continue
			}
		}
		held, err := theirs(id)
		if err := refused(cmp.Or(h.SessionID, h.PlanID), held, err); err != nil {
			return err
		}
	}
	return err
}

func (e *erasure) sessions(ctx context.Context, namespace string) error {
	list := func(filter repo.SessionFilter) func(repo.Page) (repo.List[repo.Session], error) {
		return func(page repo.Page) (repo.List[repo.Session], error) {
			return e.store.Sessions().List(ctx, filter, page)
		}
	}
	theirs := list(repo.SessionFilter{Namespace: namespace, Owner: e.Owner})
	if e.Owner == "" { // of a replay
		theirs = func(repo.Page) (list repo.List[repo.Session], err error) { return list, nil }
	}
	if err := pages.Each(pageSessions, theirs, func(sessions []repo.Session) error {
		return e.eraseSessions(ctx,
			sessions)
	}); err != nil {
		return err
	}
	none := ""
	for _, actor := range e.names() {
		if len(actor) > repo.MaxNameBytes { // an owner's
			continue
		}
		err := pages.Items(list(repo.SessionFilter{Namespace: namespace, AnyOwner: true, Actor: actor}),
			func(s repo.Session) error {
				judged, err := e.stored.Judge(ctx, []repo.ID{s.ID})
				if err != nil || len(judged) == 0 {
					return err
				}
				if judged[0].Held {
					e.receipt.Held++
					return nil
				}
				_, err = e.store.Sessions().Update(ctx, s.ID, repo.SessionUpdate{Actor: &none})
				if err == nil {
					e.receipt.Actors++
				}
				if errors.Is(err, repo.ErrNotFound) {
					return nil
				}
				return err
			})
		if err != nil {
			return err
		}
	}
	return nil
}

// A page has pageSessions sessions. A transaction deletes about batchRows rows.
const pageSessions, batchRows = 100, 1000

func (e *erasure) eraseSessions(ctx context.Context, sessions []repo.Session) error {
	for len(sessions) > 0 {
		n := removal.Batch(sessions, batchRows)
		batch := sessions[:n]
		// First what belongs to them: a session that is gone can no longer be traced to the person.
		if err := e.eraseAround(ctx, batch); err != nil {
			return err
		}
		if err := e.deleteSessions(ctx, batch); err != nil {
			return err
		}
		// Then what others have made of them meanwhile: from now on that is impossible.
		if err := e.eraseAround(ctx, batch); err != nil {
			return err
		}
		sessions = sessions[n:]
	}
	return nil
}

// eraseAround erases the messages of sessions that forks have, and what is about the sessions, which may be gone.
func (e *erasure) eraseAround(ctx context.Context, sessions []repo.Session) error {
	about := removal.Person{}
	for _, s := range sessions {
		about.Sessions = append(about.Sessions, s.ID)
	}
	var err error
	if about.Plans, err = e.stored.Made(ctx, about.Sessions); err != nil {
		return err
	}
	before := e.receipt.Texts
	if err := e.forget(ctx, about); err != nil {
		return err
	}
	if e.receipt.Texts > before {
		e.forked = append(e.forked, about.Sessions...)
	}
	return e.deletePlans(ctx, about.Plans)
}

func (e *erasure) deleteSessions(ctx context.Context, sessions []repo.Session) error {
	all := make([]removal.Deletion, len(sessions))
	for i, s := range sessions {
		all[i].ID = s.ID
	}
	removal.Delete(ctx, e.store, all)
	var err error
	for _, d := range all {
		if errors.Is(d.Err, repo.ErrContention) { // a writer has locked it: wait for that writer
			d.Deleted, d.Err = e.store.Sessions().Delete(ctx, d.ID)
		}
		if d.Err != nil {
			if !errors.Is(d.Err, repo.ErrNotFound) {
				err = cmp.Or(err, d.Err)
			}
			continue
		}
		e.receipt.Sessions++
		e.receipt.Messages += d.Deleted.Messages + d.Deleted.Kept
		e.receipt.StateKeys += d.Deleted.StateKeys
		if d.Deleted.Kept > 0 {
			e.forked = append(e.forked, d.ID)
		}
	}
	return err
}

// deletePlans deletes plans, and first cancels plans that have work.
func (e *erasure) deletePlans(ctx context.Context, ids []repo.ID) error {
	for _, id := range ids {
		err := e.store.Plans().Delete(ctx, id)
		for attempt := 0; isBusy(err) && attempt < 10; attempt++ {
			refused, _ := errors.AsType[*repo.RefusedError](err)
			_, err = e.store.Plans().Transition(ctx, refused.ID, repo.TransitionCancel, repo.Cause{Reason: "erased"})
			if err != nil && !errors.Is(err, repo.ErrConflict) {
				return err
			}
			err = e.store.Plans().Delete(ctx, id)
		}
		if err == nil {
			e.receipt.Plans++
		} else if !errors.Is(err, repo.ErrNotFound) { // with the plan above it
			return err
		}
	}
	return nil
}

func isBusy(err error) bool {
	refused, is := errors.AsType[*repo.RefusedError](err)
	return is && refused.Kind != "hold"
}

// Others may be at what the erasure has to remove. It looks again after restPause, and gives up if that has not helped
// restLooks times.
const restPause, restLooks = 100 * time.Millisecond, 100

// rest removes at once what stores remove in their own time. A pass that removed nothing may have skipped rows of
// another process, whose transaction may be undone: so rest checks for remaining rows.
func (e *erasure) rest(ctx context.Context) error {
	for looks := 0; ; looks++ {
		removed, err := e.removeRest(ctx)
		if err != nil {
			return err
		}
		if removed {
			looks = 0
		}
		switch left, err := e.stored.Left(ctx); {
		case err != nil || !left:
			return err
		case looks == restLooks:
			return fmt.Errorf("%w: others keep what is to be removed locked", repo.ErrContention)
		}
		select {
		case <-time.After(restPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (e *erasure) removeRest(ctx context.Context) (removed bool, err error) {
	for more := true; more; {
		if _, more, err = e.store.Sessions().RemoveDeleted(ctx, 0); err != nil {
			return removed, err
		}
		removed = removed || more
	}
	for more := true; more; {
		streams, parts, err := e.store.Streams().RemoveExpired(ctx, 0)
		if err != nil {
			return removed, err
		}
		more = streams+parts > 0
		removed = removed || more
	}
	return removed, nil
}

// Replay erases again the people of receipts, in a database that was restored from an older backup: it compares all
// stored names with the digests. It returns a receipt for each person of whom it found data. It may be repeated, and
// after an error it should be.
func Replay(ctx context.Context, store repo.Store, request Request, receipts ...Receipt) (done []Receipt, err error) {
	stored, err := removalOf(store)
	if err := cmp.Or(err, checkKey(request.Key)); err != nil {
		return nil, err
	}
	wanted, found := map[string]bool{}, map[string]string{}
	for i, receipt := range receipts {
		if len(receipt.Names) == 0 {
			return nil, &repo.InvalidError{Field: fmt.Sprintf("receipts[%d]", i), Reason: "has no digests of names"}
		}
		for _, text := range slices.Concat(receipt.Names, receipt.Scopes) {
			wanted[text] = true
		}
	}
	for after := (removal.Name{}); ; {
		names, err := stored.Names(ctx, after)
		if err != nil {
			return nil, err
		}
		for _, after = range names {
			if text := digest(request.Key, map[bool]string{false: ofName, true: ofScope}[after.Scope],
				after.Name); wanted[text] {
				found[text] = after.Name
			}
		}
		if len(names) == 0 {
			break
		}
	}
	for _, receipt := range receipts {
		again := Request{
			Owner: found[receipt.Names[0]], Namespaces: receipt.Namespaces, Reason: request.Reason,
			RequestedBy: request.RequestedBy, Key: request.Key,
		}
		for names, texts := range map[*[]string][]string{&again.Actors: receipt.Names[1:], &again.Scopes: receipt.Scopes} {
			for _, text := range texts {
				if name := found[text]; name != "" {
					*names = append(*names, name)
				}
			}
		}
		if again.Owner == "" && len(again.Actors)+len(again.Scopes) == 0 {
			continue
		}
		// The digests stay the receipt's: some of its names may not have been found.
		repeated := Receipt{
			ID: repo.NewID(), At: time.Now().UTC(), Namespaces: receipt.Namespaces, Names: receipt.Names,
			Scopes: receipt.Scopes,
		}
		e := &erasure{store: store, stored: stored, Request: again, receipt: &repeated}
		if err := e.run(ctx); err != nil {
			return done, err
		}
		done = append(done, repeated)
	}
	return done, nil
}

func digest(key []byte, of, name string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(of + "\x00" + name))
	return hex.EncodeToString(mac.Sum(nil))
}

package memory

import (
	"cmp"
	"context"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// held reports whether a hold keeps a session.
func (t *tables) held(namespace, owner string, id repo.ID) bool {
	return t.holds.get(repo.LegalHold{SessionID: id}) != nil || t.holds.get(repo.LegalHold{Namespace: namespace}) != nil ||
		owner != "" && t.holds.get(repo.LegalHold{Namespace: namespace, Owner: owner}) != nil
}

// namespaceOf returns the namespace of a session that exists, or was deleted.
func (t *tables) namespaceOf(id repo.ID) (namespace string) {
	if deletedIn := t.deletedIDs.get(id); deletedIn != nil {
		namespace = *deletedIn
	}
	if r := t.sessions.get(id); r != nil {
		namespace = r.Namespace
	}
	return namespace
}

// heldPlan reports whether a hold keeps a plan: with its namespace, or with the session that it was made for.
func (t *tables) heldPlan(r *planRow) bool {
	session := t.sessions.get(r.SessionID)
	return t.holds.get(repo.LegalHold{Namespace: r.Namespace}) != nil ||
		!r.SessionID.IsZero() && t.holds.get(repo.LegalHold{SessionID: r.SessionID}) != nil ||
		session != nil && t.held(session.Namespace, session.Owner, session.ID)
}

func (s sessions) AddHold(ctx context.Context, hold repo.LegalHold) error {
	return exec(ctx, unless(rules.CheckLegalHold(s.options.view, hold, false), s.write), func(t *tables) error {
		if _, err := s.session(t, hold.SessionID); err != nil && !hold.SessionID.IsZero() {
			return err
		}
		hold.CreatedAt = t.now()
		if place := rules.PlaceOfHold(hold); t.holds.get(place) == nil {
			t.holds.put(place, &hold)
		}
		return nil
	})
}

func (s sessions) RemoveHold(ctx context.Context, hold repo.LegalHold) error {
	return exec(ctx, unless(rules.CheckLegalHold(s.options.view, hold, true), s.write), func(t *tables) error {
		if !hold.SessionID.IsZero() && !rules.IsInView(s.options.view, t.namespaceOf(hold.SessionID)) {
			return sessionNotFound(hold.SessionID)
		}
		t.holds.remove(rules.PlaceOfHold(hold))
		return nil
	})
}

func (s sessions) Holds(ctx context.Context, page repo.Page) (repo.List[repo.LegalHold], error) {
	list, err := rules.HoldList(s.options.view, page)
	return run(ctx, unless(err, s.read), func(t *tables) (repo.List[repo.LegalHold], error) {
		found := t.holds.where(func(h *repo.LegalHold) bool {
			return rules.IsInView(s.options.view, cmp.Or(h.Namespace, t.namespaceOf(h.SessionID))) &&
				rules.CompareHolds(*h, list.After) > 0
		})
		compare := func(a, b *repo.LegalHold) int { return rules.CompareHolds(*a, *b) }
		return pageOf(list, found, compare, func(h *repo.LegalHold) repo.LegalHold { return *h })
	})
}

// RemoveDeleted has nothing to do: a deletion leaves nothing.
func (s sessions) RemoveDeleted(ctx context.Context, limit int) (int64, bool, error) {
	_, err := rules.CheckStreamRemoval(limit)
	return 0, false, exec(ctx, unless(err, s.write), func(*tables) error { return nil })
}

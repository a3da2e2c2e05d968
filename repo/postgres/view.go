package postgres

import (
	"cmp"
	"context"
	"slices"
	"unique"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/cache"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

// base is what all repositories have.
type base struct {
	exec executor
	// view is the namespace of a view. Empty: the whole store's.
	view string
	// known is what is known to be in views.
	known *known
}

// namespace is the namespace of names of shared scopes and streams.
func (b base) namespace() string { return cmp.Or(b.view, repo.DefaultNamespace) }

// A namespace is checked where an id enters: a look finds the namespace of a session or a plan, once, since it never
// changes and no id is given twice. What is in another one is answered like what does not exist, also if other
// arguments are wrong. So checkSession and checkPlan return the error of these first.

func (b base) checkSession(ctx context.Context, id repo.ID, checked error) error {
	if checked != nil || b.has("session", id) {
		return checked
	}
	others, err := b.others(ctx, id)
	if _, is := others[id]; is {
		err = convert.SessionNotFound(id)
	}
	return err
}

func (b base) checkPlan(ctx context.Context, id repo.ID, checked error) error {
	if checked != nil || b.has("plan", id) {
		return checked
	}
	_, err := (&plans{b}).Get(ctx, id)
	return err
}

// has reports whether something is known to be in the view. No id: nothing is asked for.
func (b base) has(kind string, id repo.ID) bool {
	return b.view == "" || id.IsZero() || b.known.has(kind, id, b.view)
}

func (b base) learn(kind string, id repo.ID) {
	if b.view != "" && b.known != nil {
		b.known.add(kind, id, b.view)
	}
}

// found returns the error of what was looked up, and notes that it is in the view.
func (b base) found(kind string, id repo.ID, namespace string, err error) error {
	if err == nil && !rules.IsInView(b.view, namespace) {
		return &repo.NotFoundError{Kind: kind, ID: id}
	}
	if err == nil {
		b.learn(kind, id)
	}
	return err
}

// others returns the sessions that are not in the view. True: it exists in another namespace.
func (b base) others(ctx context.Context, ids ...repo.ID) (map[repo.ID]bool, error) {
	var unknown []repo.ID
	for _, id := range ids {
		if !b.has("session", id) && !slices.Contains(unknown, id) {
			unknown = append(unknown, id)
		}
	}
	if len(unknown) == 0 {
		return nil, nil
	}
	others := map[repo.ID]bool{}
	for some := range slices.Chunk(unknown, repo.MaxPageSize) {
		read, err := (&sessions{base: base{exec: b.exec}}).Read(ctx, repo.ReadSessions{IDs: some})
		if err != nil {
			return nil, err
		}
		for i, found := range read.Sessions {
			if found == nil || b.found("session", some[i], found.Session.Namespace, nil) != nil {
				others[some[i]] = found != nil
			}
		}
	}
	return others, nil
}

// inView checks the session of a turn. A session that is to be created is looked at again with that: another
// caller may create it meanwhile.
func (c *turnCall) inView(ctx context.Context) error {
	if c.sessions.view == "" || c.turn.Named {
		return nil
	}
	id := c.turn.SessionID
	others, err := c.sessions.others(ctx, id)
	switch elsewhere, is := others[id]; {
	case err != nil || !is:
		return err
	case c.turn.Create == nil:
		return convert.SessionNotFound(id)
	case elsewhere:
		return rules.InOtherNamespace(id)
	}
	c.alone = true
	return nil
}

// answer returns what has become of a turn with the names of the view, which learns what is in it.
func (c *turnCall) answer(turn repo.AppendedTurn, err error) (repo.AppendedTurn, error) {
	if err != nil {
		return repo.AppendedTurn{}, rules.ErrorOutOfView(err)
	}
	c.sessions.learn("session", turn.SessionID)
	if turn.Plan != nil {
		c.sessions.learn("plan", turn.Plan.ID)
	}
	if turn.Stream != nil {
		c.sessions.learn("stream", turn.Stream.ID)
	}
	rules.TurnOutOfView(&turn)
	return turn, nil
}

// known knows of sessions, plans and streams in which namespace they are, for views. It is safe for
// concurrent use.
type known struct {
	namespaces cache.Cache[entity, unique.Handle[string]]
	// outside is what is known outside of the transaction, if this is of one. What that makes is known only in it: if it
	// is rolled back, another caller may get an id that its caller has chosen.
	outside *known
}

// entity has its kind, because a caller may give a session the id of another caller's plan.
type entity struct {
	kind string
	id   repo.ID
}

func (k *known) has(kind string, id repo.ID, namespace string) bool {
	if k == nil {
		return false
	}
	if known, found := k.namespaces.Get(entity{kind, id}); found {
		return known.Value() == namespace
	}
	return k.outside.has(kind, id, namespace)
}

func (k *known) add(kind string, id repo.ID, namespace string) {
	k.namespaces.Put(entity{kind, id}, unique.Make(namespace), 0)
}

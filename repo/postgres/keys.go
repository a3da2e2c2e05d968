package postgres

import (
	"context"
	"errors"
	"strings"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/cache"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
)

// Find answers from what is known of the key, outside of transactions.
func (s *sessions) Find(ctx context.Context, key repo.SessionKey) (repo.ID, error) {
	normal, err := rules.NormalizeKey(s.view, key)
	if err != nil {
		return repo.ID{}, err
	}
	if id, known, err := s.exec.known(ctx, normal); known || err != nil {
		return id, s.found("session", id, normal.Namespace, err)
	}
	id, err := run(ctx, s.exec.read, queries.SessionFind, db.SessionFindParams{
		Namespace: normal.Namespace,
		Key:       normal.Key,
	})
	switch {
	case conn.IsNoRows(err):
		return repo.ID{}, &repo.NotFoundError{Kind: "session", Name: normal.Key, Namespace: normal.Namespace}
	case err != nil:
		return repo.ID{}, err
	}
	s.made(repo.NewSession{Namespace: normal.Namespace, Key: normal.Key}, id.Bytes)
	return id.Bytes, nil
}

// keyCache knows the ids of sessions by their keys. A session's id and key never change, and
// no other session gets its id: so what it knows can only be of a session that was deleted.
// Then every operation with the id finds that the session is missing, upon which it is
// forgotten (noted). Nil, in a transaction without a store, knows nothing.
type keyCache struct {
	// An id that does not have the key belongs to a session that was forgotten, or restored with another key.
	ids  cache.Cache[repo.SessionKey, repo.ID]
	keys cache.Cache[repo.ID, repo.SessionKey]
	// branches are sessions that have branches, or are forks, which they remain. Of others, a statement finds that out
	// again.
	branches cache.Cache[repo.ID, struct{}]
}

func (c *keyCache) idOf(key repo.SessionKey) (repo.ID, bool) {
	id, _ := c.ids.Get(key)
	its, found := c.keys.Get(id)
	return id, found && its == key
}

func (c *keyCache) keep(key repo.SessionKey, id repo.ID) {
	// Not the caller's memory, of which the key may be a small part.
	key.Namespace, key.Key = strings.Clone(key.Namespace), strings.Clone(key.Key)
	size := len(key.Namespace) + len(key.Key)
	c.ids.Put(key, id, size)
	c.keys.Put(id, key, size)
}

// noted returns err, and forgets the session that it says is missing.
func (c *keyCache) noted(err error) error {
	if err == nil || c == nil {
		return err
	}
	if missing, is := errors.AsType[*repo.NotFoundError](err); is && missing.Kind == "session" {
		c.keys.Drop(missing.ID)
	}
	return err
}

func (c *keyCache) branched(id repo.ID) bool {
	if c == nil {
		return false
	}
	_, found := c.branches.Get(id)
	return found
}

func (c *keyCache) branch(id repo.ID) {
	if c != nil {
		c.branches.Put(id, struct{}{}, 0)
	}
}

func (p *pooled) known(ctx context.Context, key repo.SessionKey) (repo.ID, bool, error) {
	if err := p.usable(ctx); err != nil {
		return repo.ID{}, false, err
	}
	if err := ctx.Err(); err != nil {
		return repo.ID{}, false, conn.Translate(ctx, err, conn.Unsent)
	}
	id, known := p.idOf(key)
	return id, known, nil
}

func (p *pooled) learn(key repo.SessionKey, id repo.ID) { p.keep(key, id) }

// A transaction asks the database: it may have made, or deleted, the session itself.
func (b bound) known(context.Context, repo.SessionKey) (repo.ID, bool, error) {
	return repo.ID{}, false, nil
}

func (b bound) learn(repo.SessionKey, repo.ID) {}

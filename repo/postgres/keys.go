package postgres

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
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
	id, err := run(ctx, s.exec.read, queries.SessionFind, db.SessionFindParams{Namespace: normal.Namespace, Key: normal.Key})
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
// forgotten (noted).
//
// It has two generations: what is used is in the young one, and when that is full, it becomes
// the old one, which is dropped.
type keyCache struct {
	mu         sync.Mutex
	young, old generation
	// branches are sessions that have branches, or are forks, which they remain.
	branches map[repo.ID]struct{}
}

type generation struct {
	ids   map[repo.SessionKey]repo.ID
	keys  map[repo.ID]repo.SessionKey
	bytes int
}

// The bounds of a generation: entries, and the bytes of their keys.
const (
	maxKnownKeys     = 32_768
	maxKnownKeyBytes = 8 << 20
)

func (c *keyCache) get(key repo.SessionKey) (repo.ID, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id, found := c.young.ids[key]; found {
		return id, true
	}
	id, found := c.old.ids[key]
	if found {
		c.add(key, id)
	}
	return id, found
}

func (c *keyCache) put(key repo.SessionKey, id repo.ID) {
	// Not the caller's memory, of which the key may be a small part.
	key.Namespace, key.Key = strings.Clone(key.Namespace), strings.Clone(key.Key)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range []*generation{&c.young, &c.old} {
		g.drop(key)
		// A session that was restored may have another key than before.
		if earlier, found := g.keys[id]; found {
			g.drop(earlier)
		}
	}
	c.add(key, id)
}

// add adds what the young generation does not have.
func (c *keyCache) add(key repo.SessionKey, id repo.ID) {
	size := len(key.Namespace) + len(key.Key)
	if len(c.young.ids) >= maxKnownKeys || c.young.bytes+size > maxKnownKeyBytes {
		c.old, c.young = c.young, generation{}
	}
	if c.young.ids == nil {
		c.young.ids, c.young.keys = map[repo.SessionKey]repo.ID{}, map[repo.ID]repo.SessionKey{}
	}
	c.young.ids[key], c.young.keys[id] = id, key
	c.young.bytes += size
}

func (g *generation) drop(key repo.SessionKey) {
	if id, found := g.ids[key]; found {
		delete(g.ids, key)
		delete(g.keys, id)
		g.bytes -= len(key.Namespace) + len(key.Key)
	}
}

// forget forgets a session that is missing.
func (c *keyCache) forget(id repo.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range []*generation{&c.young, &c.old} {
		if key, found := g.keys[id]; found {
			g.drop(key)
		}
	}
}

// noted returns err, and forgets the session that it says is missing.
func (c *keyCache) noted(err error) error {
	if err == nil {
		return nil
	}
	if missing, is := errors.AsType[*repo.NotFoundError](err); is && missing.Kind == "session" {
		c.forget(missing.ID)
	}
	return err
}

// maxBranches bounds the sessions that are known to have branches. Another statement finds that out again.
const maxBranches = 100_000

func (c *keyCache) branched(id repo.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, found := c.branches[id]
	return found
}

func (c *keyCache) branch(id repo.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.branches == nil || len(c.branches) >= maxBranches {
		c.branches = map[repo.ID]struct{}{}
	}
	c.branches[id] = struct{}{}
}

func (p *pooled) branched(id repo.ID) bool { return p.keys.branched(id) }

func (p *pooled) branch(id repo.ID) { p.keys.branch(id) }

func (b bound) branched(id repo.ID) bool { return b.keys != nil && b.keys.branched(id) }

func (b bound) branch(id repo.ID) {
	if b.keys != nil {
		b.keys.branch(id)
	}
}

func (p *pooled) known(ctx context.Context, key repo.SessionKey) (repo.ID, bool, error) {
	if err := p.usable(ctx); err != nil {
		return repo.ID{}, false, err
	}
	if err := ctx.Err(); err != nil {
		return repo.ID{}, false, conn.Translate(ctx, err, conn.Unsent)
	}
	id, known := p.keys.get(key)
	return id, known, nil
}

func (p *pooled) learn(key repo.SessionKey, id repo.ID) { p.keys.put(key, id) }

func (p *pooled) noted(err error) error { return p.keys.noted(err) }

// A transaction asks the database: it may have made, or deleted, the session itself.
func (b bound) known(context.Context, repo.SessionKey) (repo.ID, bool, error) {
	return repo.ID{}, false, nil
}

func (b bound) learn(repo.SessionKey, repo.ID) {}

func (b bound) noted(err error) error {
	if b.keys == nil { // those of Bind
		return err
	}
	return b.keys.noted(err)
}

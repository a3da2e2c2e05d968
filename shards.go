package agentstore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/pgsettings"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/schema"
)

// Shards returns the stores of the shards, in the order of their numbers, for what is about all namespaces: lists over them, removing
// what has expired, the audit trail's log. They end with s. Make nothing in them, which belongs to the views of s. A store
// without shards returns itself.
func (s *Store) Shards() []*Store {
	if s.shards == nil {
		return []*Store{s}
	}
	return append([]*Store(nil), s.shards...)
}

// shardMap says in which shard a namespace is. Its document is stored as a value of state in the first shard.
type shardMap struct {
	Shards int `json:"shards"`
	// Slots have the shards of the namespaces with these hashes, and Exceptions those that are elsewhere.
	Slots      []int           `json:"slots"`
	Exceptions map[string]*int `json:"exceptions,omitempty"` // nil is malformed
}

const (
	slots = 1024
	// shardMapNamespace is that of the map alone.
	shardMapNamespace, shardMapScope, shardMapKey = limits.ShardMapNamespace, "shards", "map"
)

func newShardMap(shards int) shardMap {
	m := shardMap{Shards: shards, Slots: make([]int, slots)}
	for i := range m.Slots {
		m.Slots[i] = i % shards
	}
	return m
}

func (m shardMap) of(namespace string) int {
	if shard, is := m.Exceptions[namespace]; is {
		return *shard
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(namespace))
	return m.Slots[h.Sum32()%slots]
}

func (m shardMap) check(shards int) error {
	if m.Shards != shards {
		return &repo.InvalidError{Field: "options.Shards", Reason: fmt.Sprintf("is not the %d that the database was made with", m.Shards)}
	}
	fits := len(m.Slots) == slots
	for _, shard := range m.Slots {
		fits = fits && shard >= 0 && shard < shards
	}
	for _, shard := range m.Exceptions {
		fits = fits && shard != nil && *shard >= 0 && *shard < shards
	}
	if !fits {
		return fmt.Errorf("%w: the stored map of shards names others than 0 to %d", repo.ErrSchema, shards-1)
	}
	return nil
}

// readShardMap reads the map, and stores it first if nobody has, unless refused says why it is not to be stored.
func readShardMap(ctx context.Context, first kept, shards int, refused error) (m shardMap, err error) {
	state, scope := first.In(shardMapNamespace).State(), repo.Scope{Name: shardMapScope}
	value, err := state.Get(ctx, scope, shardMapKey)
	if errors.Is(err, repo.ErrNotFound) {
		if refused != nil {
			return m, refused
		}
		document, err := json.Marshal(newShardMap(shards))
		if err != nil {
			return m, err
		}
		_, err = state.Change(ctx, []repo.StateChange{{Scope: scope, Key: shardMapKey, Value: document, IfVersion: new(int64)}})
		if err != nil && !errors.Is(err, repo.ErrConflict) {
			return m, err
		}
		value, err = state.Get(ctx, scope, shardMapKey)
		if err != nil {
			return m, err
		}
	} else if err != nil {
		return m, err
	}
	// What it does not know may be a word that somebody has misspelled, and would put a namespace elsewhere.
	decoder := json.NewDecoder(bytes.NewReader(value.Value))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&m); err != nil || m.Slots == nil {
		return m, fmt.Errorf("%w: the stored map of shards is malformed", repo.ErrSchema)
	}
	return m, m.check(shards)
}

// ofShards returns a store of shards, with their map.
func ofShards(shards []*Store, first kept, places shardMap) *Store {
	whole := refusing(first, &repo.InvalidError{Field: "store", Reason: "has shards: use a view (In), or each of Shards for what is about all namespaces"})
	reserved := refusing(first, &repo.InvalidError{Field: "namespace", Reason: "is that of the map of shards"})
	return &Store{Store: whole, kept: whole, shards: shards, places: places, reserved: reserved}
}

func refusing(s kept, err error) kept {
	switch s := s.(type) {
	case *postgres.Store:
		return s.Refusing(err)
	case *memory.Store:
		return s.Refusing(err)
	}
	return s
}

// openShards opens a store of shards in a database.
func openShards(ctx context.Context, databaseURL string, options Options) (_ *Store, err error) {
	config, err := parse(databaseURL)
	if err != nil {
		return nil, err
	}
	names := schema.Shards(options.Schema, options.Shards)
	if !pgsettings.PinSchema(config.ConnConfig.RuntimeParams, names[0]) {
		return nil, &repo.InvalidError{Field: "options.Schema", Reason: "is not the search_path of the database URL"}
	}
	key := fmt.Sprintf("%s/%d", databaseKey(config.ConnConfig), len(names))
	delete(config.ConnConfig.RuntimeParams, "search_path")
	shared, release, err := pools.open(ctx, key,
		func(ctx context.Context) (*sharedPool, error) { return newSharedPool(ctx, config, options, names) }, (*sharedPool).close)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	shards := make([]*Store, len(names))
	errs, refused := make([]error, len(names)), make([]error, len(names))
	open := func(i int) {
		o := options
		o.Schema = names[i]
		shards[i], errs[i] = openIn(pgsettings.In(ctx, names[i]), shared, i, o)
		if errors.Is(errs[i], repo.ErrSchema) { // this shard alone is not used
			store := shared.stores[i].Refusing(fmt.Errorf("shard %s: %w", names[i], errs[i]))
			shards[i] = &Store{Store: store, kept: store, pool: shared.pool}
			refused[i], errs[i] = errs[i], nil
		}
		if errs[i] == nil {
			shards[i].release = func() {}
		}
	}
	first := 0
	if options.Migrate { // the map is read before schemas are made for another number
		if open(0); errs[0] == nil && refused[0] == nil {
			_, errs[0] = readShardMap(ctx, shared.stores[0], len(names), nil)
		}
		if errs[0] != nil {
			return nil, errs[0]
		}
		first = 1
	}
	var opening sync.WaitGroup
	room := make(chan struct{}, openAtOnce)
	for i := first; i < len(names); i++ {
		opening.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			open(i)
		})
	}
	opening.Wait()
	if err := cmp.Or(errs...); err != nil {
		return nil, err
	}
	if !slices.Contains(refused, nil) {
		return nil, refused[0]
	}
	places, err := readShardMap(ctx, shared.stores[0], len(names), cmp.Or(refused...))
	if err != nil {
		return nil, err
	}
	store := ofShards(shards, shared.stores[0], places)
	store.pool, store.release = shared.pool, release
	return store, nil
}

// openAtOnce bounds the shards that are opened at once. Another connection takes longer than the questions of several shards, and
// each that is migrated has one beside the pool's.
const openAtOnce = 2

// openMemoryShards opens a store of shards in memory.
func openMemoryShards(ctx context.Context, name string, options Options) (_ *Store, err error) {
	var shards []*Store
	release := func() {
		for _, shard := range shards {
			_ = shard.Close()
		}
	}
	for _, in := range schema.Shards(options.Schema, options.Shards) {
		o := options
		o.Shards, o.Schema = 0, in
		shard, err := openMemory(ctx, name, o)
		if err != nil {
			release()
			return nil, err
		}
		shards = append(shards, shard)
	}
	places, err := readShardMap(ctx, shards[0].kept, len(shards), nil)
	if err != nil {
		release()
		return nil, err
	}
	store := ofShards(shards, shards[0].kept, places)
	store.release = func() {}
	return store, nil
}

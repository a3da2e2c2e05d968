package agentstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/repo"
)

// What is in no view, or over several shards, is refused.
func TestShards(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store, err := Open(ctx, "memory://shards", Options{Shards: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	_, create := store.Sessions().Create(ctx, repo.NewSession{})
	_, list := store.Sessions().Namespaces(ctx, repo.Page{})
	inTx := store.InTx(ctx, func(context.Context, repo.Repositories) error { return nil })
	_, reserved := store.In(shardMapNamespace).Sessions().Create(ctx, repo.NewSession{})
	_, empty := store.In("").Sessions().Create(ctx, repo.NewSession{})
	sink := auditErr(ctx, store.AuditLog())
	for name, err := range map[string]error{"create": create, "list": list, "in tx": inTx, "reserved": reserved, "empty": empty, "sink": sink} {
		if !errors.Is(err, repo.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	used := map[int]bool{}
	for i := range 64 {
		namespace := fmt.Sprint("tenant ", i)
		session, err := store.In(namespace).Sessions().Create(ctx, repo.NewSession{})
		if err != nil {
			t.Fatal(err)
		}
		shard := store.places.of(namespace)
		used[shard] = true
		for other, in := range store.Shards() {
			if _, err := in.Sessions().Get(ctx, session.ID); (err == nil) != (other == shard) {
				t.Errorf("shard %d has a session of shard %d: %v", other, shard, err)
			}
		}
		if _, err := store.In("tenant").Sessions().Get(ctx, session.ID); !errors.Is(err, repo.ErrNotFound) {
			t.Errorf("another view: %v", err)
		}
	}
	if len(used) != 4 || len(store.Shards()) != 4 {
		t.Errorf("the tenants are in the shards %v", used)
	}
	if _, err := Open(ctx, "memory://shards", Options{Shards: 300}); !errors.Is(err, repo.ErrInvalid) {
		t.Errorf("300 shards: %v", err)
	}
}

func auditErr(ctx context.Context, log auditlog.Store) error {
	sink, err := log.Sink(ctx)
	if err == nil {
		err = sink.Close()
	}
	return err
}

// The places of namespaces are stored: their hash never changes.
func TestShardMap(t *testing.T) {
	t.Parallel()
	m := newShardMap(16)
	count := make([]int, 16)
	for i := range 10_000 {
		count[m.of(fmt.Sprint("tenant-", i))]++
	}
	for shard, n := range count {
		if n < 450 || n > 850 {
			t.Errorf("shard %d has %d of 10,000 namespaces", shard, n)
		}
	}
	if m.of("tenant-1") != 11 || repo.Bucket("alice", 256) != "bucket-175" {
		t.Errorf("tenant-1 is in shard %d, alice in %s", m.of("tenant-1"), repo.Bucket("alice", 256))
	}
	m.Exceptions = map[string]*int{"tenant-1": new(5)}
	if m.of("tenant-1") != 5 || m.check(16) != nil || !errors.Is(m.check(8), repo.ErrInvalid) {
		t.Error("an exception")
	}
	m.Exceptions["tenant-2"] = new(16)
	if err := m.check(16); !errors.Is(err, repo.ErrSchema) {
		t.Errorf("a shard that does not exist: %v", err)
	}
}

// A map that somebody has changed by hand, and not as it is meant, is refused: it would put namespaces elsewhere.
func TestMalformedShardMap(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store, err := Open(ctx, "memory://malformed-map", Options{Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	state, scope := store.Shards()[0].In(shardMapNamespace).State(), repo.Scope{Name: shardMapScope}
	stored, err := state.Get(ctx, scope, shardMapKey)
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]error{
		edited(t, stored.Value, "exceptions", `{"acme":1}`):    nil,
		edited(t, stored.Value, "exceptions", `{"acme":2}`):    repo.ErrSchema,
		edited(t, stored.Value, "exceptions", `{"acme":null}`): repo.ErrSchema,
		edited(t, stored.Value, "exeptions", `{"acme":1}`):     repo.ErrSchema,
		edited(t, stored.Value, "slots", `null`):               repo.ErrSchema,
		edited(t, stored.Value, "slots", `{}`):                 repo.ErrSchema,
		edited(t, stored.Value, "shards", `4`):                 repo.ErrInvalid,
		`null`:                                                 repo.ErrSchema,
	} {
		if _, err := state.Change(ctx, []repo.StateChange{{Scope: scope, Key: shardMapKey, Value: []byte(value)}}); err != nil {
			t.Fatal(err)
		}
		again, err := Open(ctx, "memory://malformed-map", Options{Shards: 2})
		if !errors.Is(err, want) {
			t.Errorf("%.40s… gave %v", value, err)
		}
		if err == nil {
			_ = again.Close()
		}
	}
}

// edited returns an object with another value of a member.
func edited(t *testing.T, object []byte, name, value string) string {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(object, &members); err != nil {
		t.Fatal(err)
	}
	members[name] = json.RawMessage(value)
	text, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

package postgres

import (
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

// A namespace is that of one kind, and what a transaction knows is known to it alone.
func TestKnown(t *testing.T) {
	t.Parallel()
	var k known
	inside, id, made := &known{outside: &k}, repo.NewID(), repo.NewID()
	k.add("session", id, "a")
	inside.add("session", made, "a")
	if !k.has("session", id, "a") || !inside.has("session", id, "a") || !inside.has("session", made, "a") {
		t.Error("a session was forgotten")
	}
	if k.has("session", id, "b") || k.has("plan", id, "a") || k.has("session", made, "a") {
		t.Error("another namespace, or another kind, or the outside has it")
	}
}

func BenchmarkKnown(b *testing.B) {
	var k known
	ids := make([]repo.ID, 1000)
	for i := range ids {
		ids[i] = repo.NewID()
		k.add("session", ids[i], "tenant")
	}
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			k.has("session", ids[i%len(ids)], "tenant")
		}
	})
}

package postgres

import (
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

// What is used stays known when the rest is dropped.
func TestKnown(t *testing.T) {
	t.Parallel()
	var k known
	used, unused := repo.NewID(), repo.NewID()
	k.add("session", used, "a")
	k.add("session", unused, "a")
	for range 3 * maxKnown {
		k.add("session", repo.NewID(), "b")
		if !k.has("session", used, "a") {
			t.Fatal("a session that is used was forgotten")
		}
	}
	if k.has("session", unused, "a") || len(k.young)+len(k.old) > 2*maxKnown {
		t.Errorf("there are %d and %d, and the unused one", len(k.young), len(k.old))
	}
	if k.has("session", used, "b") || k.has("plan", used, "a") {
		t.Error("another namespace, or another kind, has it")
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

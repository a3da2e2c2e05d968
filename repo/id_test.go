package repo_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

func TestParseID(t *testing.T) {
	id := repo.NewID()
	for _, text := range []string{id.String(), strings.ToLower(id.String())} {
		if got, err := repo.ParseID(text); err != nil || got != id {
			t.Errorf("%s is %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"00000000000000000000000000", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"} {
		if got, err := repo.ParseID(text); err != nil || got.String() != text {
			t.Errorf("%s is %s, %v", text, got, err)
		}
	}
	good := id.String()
	for name, text := range map[string]string{
		"empty":          "",
		"short":          good[1:],
		"long":           good + "0",
		"too large":      "8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
		"the letter U":   good[:25] + "U",
		"the letter I":   good[:25] + "I",
		"a space":        good[:25] + " ",
		"two bytes":      good[:24] + "é",
		"a UUID":         "0190c1a2-7b3c-7def-8123-456789abcdef",
		"text in secret": "SECRETSECRETSECRETSECRET!!",
	} {
		_, err := repo.ParseID(text)
		t.Run(name, func(t *testing.T) { wantInvalid(t, err, "id", "is not a ULID") })
	}
}

func TestNewIDAscendsAndIsUnique(t *testing.T) {
	var group sync.WaitGroup
	var mutex sync.Mutex
	seen := map[repo.ID]bool{}
	for range 4 {
		group.Go(func() {
			ids := make([]repo.ID, 5000)
			for i := range ids {
				ids[i] = repo.NewID()
				if i > 0 && ids[i].Compare(ids[i-1]) <= 0 {
					t.Errorf("%s came after %s", ids[i], ids[i-1])
					return
				}
			}
			mutex.Lock()
			defer mutex.Unlock()
			for _, id := range ids {
				if seen[id] {
					t.Errorf("%s came twice", id)
				}
				seen[id] = true
			}
		})
	}
	group.Wait()
}

func BenchmarkNewID(b *testing.B) {
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			repo.NewID()
		}
	})
}

package repo_test

import (
	"encoding/binary"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-df90f812/agentstore/repo"
)

func TestParseID(t *testing.T) {
	id := repo.NewID()
	for _, text := range []string{id.String(), strings.ToUpper(id.String())} {
		if got, err := repo.ParseID(text); err != nil || got != id {
			t.Errorf("%s is %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"} {
		if got, err := repo.ParseID(text); err != nil || got.String() != text {
			t.Errorf("%s is %s, %v", text, got, err)
		}
	}
	good := id.String()
	for name, text := range map[string]string{
		"empty":              "",
		"short":              good[1:],
		"long":               good + "0",
		"no hyphens":         strings.ReplaceAll(good, "-", ""),
		"in braces":          "{" + good + "}",
		"a URN":              "urn:uuid:" + good,
		"hyphens elsewhere":  "0190c1a27-b3c-7def-8123-456789abcdef",
		"the letter G":       good[:35] + "G",
		"a space":            good[:35] + " ",
		"two bytes":          good[:34] + "é",
		"a ULID":             "01KGGZ7Q3M0000000000000001",
		"text in secret":     "SECRETSECRETSECRETSECRETSECRETSECRET",
		"an id in JSON text": `"` + good + `"`,
	} {
		_, err := repo.ParseID(text)
		t.Run(name, func(t *testing.T) {
			wantInvalid(t, err, "id", "is not a UUID")
			if strings.Contains(err.Error(), "SECRET") {
				t.Error(err)
			}
		})
	}
}

// An id has version 7 and the time at which it was made, and is the same text as in the database and in JSON.
func TestIDIsAUUID(t *testing.T) {
	before := time.Now().UnixMilli()
	id := repo.NewID()
	made := uuid.UUID(id)
	if at := int64(binary.BigEndian.Uint64(id[:8]) >> 16); made.Version() != 7 || made.Variant() != uuid.RFC4122 || at < before || at > time.Now().UnixMilli()+1000 {
		t.Errorf("%s: version %d, %v, %d ms after", id, made.Version(), made.Variant(), at-before)
	}
	var read struct{ ID repo.ID }
	text, err := json.Marshal(struct{ ID repo.ID }{id})
	if err != nil || string(text) != `{"ID":"`+made.String()+`"}` {
		t.Errorf("%s, %v", text, err)
	}
	if err := json.Unmarshal(text, &read); err != nil || read.ID != id {
		t.Errorf("%s, %v", read.ID, err)
	}
	if err := json.Unmarshal([]byte(`{"ID":"x"}`), &read); err == nil {
		t.Error("x is an id")
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

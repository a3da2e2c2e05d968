//go:build !race

// These take long with the race detector. make test runs them without it.

package rules_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// A turn may hold the most bytes of messages,
// and apart from them those of state.
func TestAmountsOfTurns(t *testing.T) {
	message := userMessage()
	message.Content = strings.Repeat("x", limits.MaxBatchBytes/4-len("{}")-len("k"))
	message.Kind = "k"
	four := []repo.NewMessage{message, message, message, message}
	var changes []repo.StateChange
	for i := range limits.MaxStateBytes / limits.MaxStateValueBytes {
		key := fmt.Sprintf("%02d", i)
		value := json.RawMessage(`"` + strings.Repeat("x", limits.MaxStateValueBytes-len(key)-len(`""`)) + `"`)
		changes = append(changes, repo.StateChange{Key: key, Value: value})
	}
	all := repo.Turn{SessionID: repo.NewID(), Messages: four, State: changes}
	_, err := rules.NormalizeTurn("", all, repo.ID{})
	wantInvalid(t, err, "", "")
}

// A batch of valid entries may be too large.
func TestAmountsOfEntries(t *testing.T) {
	entry := repo.AuditEntry{Type: events.ToolInvoked}
	large := make([]byte, repo.MaxMetadataBytes-8)
	for i := range large {
		large[i] = 'x'
	}
	entry.Details = json.RawMessage(`{"a":"` + string(large) + `"}`)
	batch := make([]repo.AuditEntry, limits.MaxBatchBytes/len(entry.Details))
	for i := range batch {
		batch[i] = entry
	}
	normal, err := rules.NormalizeEntries("", batch)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[repo.ID]bool{}
	for _, e := range normal {
		seen[e.ID] = true
	}
	if len(seen) != len(batch) {
		t.Errorf("%d ids for %d entries", len(seen), len(batch))
	}
	var invalid *repo.InvalidError
	if _, err := rules.NormalizeEntries("", append(batch, entry)); !errors.As(err, &invalid) || invalid.Field != "entries" {
		t.Errorf("one more: %v", err)
	}
}

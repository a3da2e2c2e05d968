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

// Turns of one call together may hold as much as one turn may: the bytes of messages,
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
	more := repo.StateChange{Scope: repo.Scope{Name: "x"}, Key: "k", Op: repo.StateRemove}
	normalize := func(turns ...repo.Turn) error {
		var together []repo.Turn
		for _, turn := range turns {
			turn.SessionID = repo.NewID()
			together = append(together, turn)
		}
		_, err := rules.NormalizeTurns(together, nil)
		return err
	}
	all := repo.Turn{SessionID: repo.NewID(), Messages: four, State: changes}
	_, err := rules.NormalizeTurn(all, nil)
	wantInvalid(t, err, "", "")
	wantInvalid(t, normalize(all), "", "")
	wantInvalid(t, normalize(repo.Turn{Messages: four[:1]}, repo.Turn{Messages: four[1:], State: changes[1:]}, repo.Turn{State: changes[:1]}), "", "")
	wantInvalid(t, normalize(all, repo.Turn{Messages: []repo.NewMessage{userMessage()}}), "turns", "more than 67108864 bytes of messages")
	wantInvalid(t, normalize(all, repo.Turn{State: []repo.StateChange{more}}), "turns", "more than 67108864 bytes of state")
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
	normal, err := rules.NormalizeEntries(batch)
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
	if _, err := rules.NormalizeEntries(append(batch, entry)); !errors.As(err, &invalid) || invalid.Field != "entries" {
		t.Errorf("one more: %v", err)
	}
}

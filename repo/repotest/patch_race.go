package repotest

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

// patchers change different members of one session's metadata, several times each.
const patchers, patches = 16, 5

// Concurrent patches of different members are all kept, and so are updates that expect
// a version and are repeated at the actual one. Without either, changes are lost.
func testConcurrentPatch(t *testing.T, store repo.Store) {
	s := store.Sessions()
	id := create(t, s)
	change := func(worker, i int) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"member %d":%d}`, worker, i))
	}
	for name, attempt := range map[string]func(worker, i int) error{
		"patch": func(worker, i int) error {
			_, err := s.Update(t.Context(), id, repo.SessionUpdate{MetadataPatch: change(worker, i)})
			return err
		},
		"replace at a version": func(worker, i int) error {
			for {
				stored, err := s.Get(t.Context(), id)
				if err != nil {
					return err
				}
				_, err = s.Update(t.Context(), id, repo.SessionUpdate{
					Metadata: withMember(stored.Metadata, worker, i), IfVersion: &stored.Version,
				})
				if _, stale := errors.AsType[*repo.VersionConflictError](err); !stale {
					return err
				}
			}
		},
	} {
		update(t, s, id, repo.SessionUpdate{Metadata: json.RawMessage(`{}`)})
		together(patchers, func(worker int) {
			for i := range patches {
				if err := attempt(worker, i); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
		if lost := lostMembers(t, get(t, s, id)); lost > 0 {
			t.Errorf("%s: %d of %d members are lost", name, lost, patchers)
		}
	}
	// The naive way, one step at a time so that it always goes wrong: two read, then
	// both replace.
	update(t, s, id, repo.SessionUpdate{Metadata: json.RawMessage(`{}`)})
	read := make([]repo.Session, patchers)
	together(patchers, func(worker int) {
		var err error
		if read[worker], err = s.Get(t.Context(), id); err != nil {
			t.Errorf("Get: %v", err)
		}
	})
	together(patchers, func(worker int) {
		replaced := repo.SessionUpdate{Metadata: withMember(read[worker].Metadata, worker, patches-1)}
		if _, err := s.Update(t.Context(), id, replaced); err != nil {
			t.Errorf("Update: %v", err)
		}
	})
	if lost := lostMembers(t, get(t, s, id)); lost == 0 {
		t.Error("to read and to replace loses nothing: the test finds no lost change")
	}
}

func withMember(metadata json.RawMessage, worker, i int) json.RawMessage {
	members := map[string]int{}
	if err := json.Unmarshal(metadata, &members); err != nil {
		panic(err)
	}
	members[fmt.Sprintf("member %d", worker)] = i
	changed, err := json.Marshal(members)
	if err != nil {
		panic(err)
	}
	return changed
}

// lostMembers returns how many workers' last changes are missing.
func lostMembers(t *testing.T, session repo.Session) (lost int) {
	t.Helper()
	members := map[string]int{}
	if err := json.Unmarshal(session.Metadata, &members); err != nil {
		t.Fatal(err)
	}
	for worker := range patchers {
		if members[fmt.Sprintf("member %d", worker)] != patches-1 {
			lost++
		}
	}
	return lost
}

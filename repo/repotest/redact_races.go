package repotest

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

func redactRaceTests() []test {
	return []test{
		onPlans("Once", testRedactOnce),
		on("Follow", testRedactFollow),
		on("Beside", testRedactBeside),
	}
}

// redacting is a call of Redact, or what stands for it.
type redacting func(id repo.ID, sequence int64) error

// redactedAtOnce has a session and its forks redact the same message at the same time, and returns how many entries the audit trail
// has then.
func redactedAtOnce(t *testing.T, r repo.Repositories, call redacting) (entries int) {
	t.Helper()
	s := r.Sessions()
	id := create(t, s)
	appendTo(t, s, id, leaked())
	all := []repo.ID{id, id, id}
	for range 3 {
		fork, err := s.Fork(t.Context(), id, 0, repo.NewSession{})
		all = append(all, must(t, fork, err).ID)
	}
	var running sync.WaitGroup
	for _, of := range all {
		running.Go(func() {
			if err := call(of, 0); err != nil {
				t.Errorf("a redaction: %v", err)
			}
		})
	}
	running.Wait()
	told := 0
	for _, m := range readAll(t, s, id) {
		if isRedaction(m) {
			told++
		}
	}
	wantSame(t, "messages that tell of it", told, 1)
	for _, of := range all[2:] {
		found, err := r.Audit().List(t.Context(), repo.AuditFilter{SessionID: of, Type: "entity_deleted"}, repo.Page{})
		entries += len(must(t, found, err).Items)
	}
	return entries
}

// Guarantee: Deletion: Of several redactions of a message at once one is recorded.
func testRedactOnce(t *testing.T, r repo.Repositories) {
	s := r.Sessions()
	wantSame(t, "entries", redactedAtOnce(t, r, func(id repo.ID, sequence int64) error {
		return s.Redact(t.Context(), id, []int64{sequence}, by)
	}), 1)
	// A caller that looks first, and records what it does itself, records it twice.
	var looked sync.WaitGroup
	looked.Add(6)
	entries := redactedAtOnce(t, r, func(id repo.ID, sequence int64) error {
		found, err := s.MessagesFrom(t.Context(), id, sequence, 1)
		looked.Done()
		looked.Wait()
		if err == nil && found[0].Kind != repo.KindRedacted {
			err = r.Audit().Record(t.Context(), repo.AuditEntry{Type: "entity_deleted", SessionID: id, Namespace: get(t, s, id).Namespace})
		}
		if err != nil {
			return err
		}
		return s.Redact(t.Context(), id, []int64{sequence}, by)
	})
	if entries < 3 {
		t.Errorf("the naive way has %d entries", entries)
	}
}

// Guarantee: Deletion: Followers learn once and in order that messages were redacted.
func testRedactFollow(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	stored := appendTo(t, s, id, leaked(), user("b"))
	first := follow(t, s, id, 0)
	first.wants(stored...)
	redact(t, s, id, 0)
	after := appendTo(t, s, id, user("after"))
	all := readAll(t, s, id)
	first.wants(all[2], after[0])
	// One that begins now does not get what was read for the other.
	second := follow(t, s, id, 0)
	second.wants(all...)
}

// Appends, redactions, forks, rewinds and exports go on beside each other. What a redaction has answered for has no content left.
func testRedactBeside(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	appendTo(t, s, id, leaked(), leaked())
	var mu sync.Mutex
	gone, forks := map[int64]bool{}, []repo.ID{id}
	var running sync.WaitGroup
	do := func(what func() error) {
		running.Go(func() {
			for range 15 {
				if err := what(); err != nil {
					t.Errorf("beside others: %v", err)
				}
			}
		})
	}
	for range 2 {
		do(func() error {
			_, err := s.Append(t.Context(), id, leaked(), leaked())
			return err
		})
		do(func() error {
			session, err := s.Get(t.Context(), id)
			if err != nil {
				return err
			}
			sequences := []int64{rand.Int64N(session.MessageCount), rand.Int64N(session.MessageCount)}
			if err := s.Redact(t.Context(), id, sequences, by); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			gone[sequences[0]], gone[sequences[1]] = true, true
			return nil
		})
	}
	do(func() error {
		fork, err := s.Fork(t.Context(), id, 1, repo.NewSession{})
		if err == nil {
			err = s.Redact(t.Context(), fork.ID, []int64{rand.Int64N(2)}, by)
		}
		mu.Lock()
		defer mu.Unlock()
		forks = append(forks, fork.ID)
		return err
	})
	do(func() error {
		_, err := s.AppendTurn(t.Context(), repo.Turn{SessionID: id, After: ptr(rand.Int64N(2)), Messages: []repo.NewMessage{leaked()}})
		return err
	})
	do(func() error {
		var document bytes.Buffer
		return s.Export(t.Context(), id, &document)
	})
	running.Wait()
	if len(gone) == 0 {
		t.Error("nothing was redacted")
	}
	for _, of := range forks {
		all := read(t, s, of, repo.ReadSessions{First: 1000, Branches: true}).Messages
		for at, m := range all {
			if m.Sequence != int64(at) {
				t.Fatalf("message %d has the sequence %d", at, m.Sequence)
			}
			text, err := json.Marshal(m)
			if err != nil || gone[m.Sequence] && (of == id || at < 2) && bytes.Contains(text, []byte(canary)) {
				t.Errorf("message %d of %s is left: %s, %v", at, of, text, err)
			}
		}
	}
	for _, of := range forks[1:] {
		remove(t, s, of)
	}
	remove(t, s, id)
}

package window

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

// Whenever a session is compacted, the next prompt is one that a provider accepts, with the newest message if it had
// that before, the question, and what came since, unless there is more than fits.
func TestCompactedPromptsAreAccepted(t *testing.T) {
	t.Parallel()
	store := memory.New()
	summarize := func(context.Context, []repo.Message) (string, error) { return "short", nil }
	compacted, sessions := 0, 20
	if os.Getenv("AGENTSTORE_TEST_FULL") != "" { // see make test/full
		sessions = 1000
	}
	for seed := range uint64(sessions) {
		r := rand.New(rand.NewPCG(seed, 2))
		session, err := store.Sessions().Create(t.Context(), repo.NewSession{})
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Tokens: 200 + r.Int64N(800), Calls: callsIn}
		var all []repo.Message
		for _, m := range randomHistory(r, 40) {
			stored, err := store.Sessions().Append(t.Context(), session.ID, repo.NewMessage{
				Role: m.Role, Content: "x", Payload: m.Payload, CallID: m.CallID, Tokens: m.Tokens,
			})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, stored...)
			before, _ := Read(t.Context(), store.Sessions(), session.ID, o)
			added, err := Compact(t.Context(), store, session.ID, o, summarize)
			if added {
				compacted++
			}
			after, failed := Read(t.Context(), store.Sessions(), session.ID, o)
			if err != nil && !errors.Is(err, repo.ErrLimit) || failed != nil && err == nil {
				t.Fatalf("seed %d: %v, and then %v", seed, err, failed)
			}
			if failed == nil {
				checkCompacted(t, seed, all, before, after)
			}
		}
	}
	if compacted < 5*sessions {
		t.Errorf("%d sessions were compacted %d times", sessions, compacted)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

func checkCompacted(t *testing.T, seed uint64, all []repo.Message, before, after Window) {
	t.Helper()
	if why := refused(after.Messages); why != "" {
		t.Fatalf("seed %d: %s", seed, why)
	}
	had, has, question := map[repo.ID]bool{}, map[repo.ID]bool{}, int64(none)
	for _, m := range before.Messages {
		had[m.ID] = true
	}
	for _, m := range append(after.Messages, after.Dropped...) {
		has[m.ID] = true
	}
	for _, m := range all {
		if (Options{}).asks(m) {
			question = m.Sequence
		}
	}
	for i, m := range all {
		isNewest := i == len(all)-1 && had[m.ID]
		isSince := m.Sequence > question && question != none && !after.Cut
		if !has[m.ID] && (isNewest || isSince || m.Sequence == question) {
			t.Fatalf("seed %d, %d messages: %d is missing, and the question is %d", seed, len(all), m.Sequence, question)
		}
	}
}

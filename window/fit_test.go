package window

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

// callsIn has the calls of a message in its payload, or one as its call id.
func callsIn(m repo.Message) []string {
	if m.Role == repo.RoleAssistant && m.CallID != "" {
		return []string{m.CallID}
	}
	return strings.Fields(string(m.Payload))
}

// randomHistory has turns of users, answers, calls in parallel with one or several results, in messages of their own or
// in one, with ids that come again, results that come late or never, results without a call, instructions, and empty
// contents.
func randomHistory(r *rand.Rand, turns int) []repo.Message {
	var all []repo.Message
	var late []string
	calls := 0
	add := func(role repo.Role, call, payload string) {
		m := repo.Message{ID: repo.NewID(), Sequence: int64(len(all)), Follows: int64(len(all)) - 1, Role: role, CallID: call, Tokens: 1 + r.Int64N(50)}
		if m.Payload = []byte(payload); r.IntN(4) > 0 {
			m.Content = "x"
		}
		all = append(all, m)
	}
	for range turns {
		switch r.IntN(12) {
		case 0:
			add(repo.RoleSystem, "", "")
		case 1:
			add(repo.RoleTool, fmt.Sprint("nobody's ", r.IntN(9)), "")
		case 2, 3, 4, 5:
			var made []string
			if r.IntN(3) == 0 {
				calls = 0
			}
			for range 1 + r.IntN(3) {
				calls++
				made = append(made, fmt.Sprint("call", calls))
			}
			if r.IntN(6) == 0 {
				add(repo.RoleAssistant, "", strings.Join(made, " "))
			} else {
				for _, call := range made {
					add(repo.RoleAssistant, call, "")
				}
			}
			r.Shuffle(len(made), func(i, j int) { made[i], made[j] = made[j], made[i] })
			for _, call := range made {
				switch r.IntN(8) {
				case 0: // it is under way, or was given up
				case 1:
					late = append(late, call)
				default:
					for range 1 + r.IntN(4)/3 {
						add(repo.RoleTool, call, "")
					}
				}
			}
		case 6:
			if len(late) > 0 {
				add(repo.RoleTool, late[0], "")
				late = late[1:]
			}
		case 7, 8:
			add(repo.RoleAssistant, "", "")
		default:
			add(repo.RoleUser, "", "")
		}
	}
	return all
}

// asRead returns of a history what ReadSessions.Tokens reads.
func asRead(o Options, all []repo.Message) history {
	h := history{stays: isInstruction}
	room := o.Tokens
	begin := len(all)
	for count := 0; begin > 0; begin-- {
		if m := all[begin-1]; !isInstruction(m) {
			if room -= m.Tokens; room < 0 || count == o.Messages {
				h.cut = true
				break
			}
			count++
		}
	}
	for i, m := range all {
		if i >= begin || isInstruction(m) {
			h.messages = append(h.messages, m)
		}
	}
	if h.cut && !slices.ContainsFunc(h.messages, o.asks) {
		for i := range all {
			if o.asks(all[i]) {
				h.question = &all[i]
			}
		}
	}
	return h
}

// The begin of a prompt rarely changes while messages are added.
func TestPrefixStays(t *testing.T) {
	t.Parallel()
	o := Options{Tokens: 2000, Messages: 1000, Calls: callsIn}
	for seed := range uint64(2) {
		r := rand.New(rand.NewPCG(seed, 1))
		all := randomHistory(r, 300)
		groups := o.groups(all)
		_, dropped := o.whole(groups, o.open(groups), false) // what is read for nothing makes prompts shorter, too
		all = slices.DeleteFunc(all, func(m repo.Message) bool {
			isSame := func(d repo.Message) bool { return d.ID == m.ID }
			return isInstruction(m) || slices.ContainsFunc(dropped, isSame)
		})
		changes, prompts, from, shortest := 0, 0, int64(-1), o.Tokens
		for n := 200; n < len(all); n++ {
			w, err := o.fit(asRead(o, all[:n]))
			if err != nil {
				t.Fatal(err)
			}
			if prompts++; w.From != from {
				changes, from = changes+1, w.From
			}
			shortest = min(shortest, w.Tokens)
		}
		t.Logf("seed %d: the begin changed %d times in %d prompts, the shortest of which has %d of %d tokens", seed, changes, prompts, shortest, o.Tokens)
		if changes > prompts/8 || shortest < o.Tokens/4 {
			t.Errorf("seed %d: the begin changed %d times in %d prompts; the shortest has %d tokens", seed, changes, prompts, shortest)
		}
	}
}

func TestPinsThatCannotFit(t *testing.T) {
	t.Parallel()
	all := []repo.Message{{ID: repo.NewID(), Role: repo.RoleUser, Tokens: 100}, {ID: repo.NewID(), Sequence: 1, Role: repo.RoleUser, Tokens: 10}}
	pins := func(m repo.Message) bool { return m.Tokens == 100 }
	if w, err := (Options{Tokens: 110}).fit(history{messages: all, stays: pins}); err != nil || len(w.Messages) != 2 {
		t.Errorf("%+v, %v", w, err)
	}
	if w, err := (Options{Tokens: 105}).fit(history{messages: all, stays: pins}); !errors.Is(err, repo.ErrLimit) {
		t.Errorf("a prompt without the newest message: %+v, %v", w, err)
	}
	if _, err := (Options{Tokens: 99}).fit(history{messages: all, stays: pins}); err == nil {
		t.Error("a pin that does not fit was left out")
	}
}

// Estimates are added without an overflow.
func TestHugeEstimates(t *testing.T) {
	t.Parallel()
	o := Options{Tokens: 100, Estimate: func(repo.Message) int64 { return math.MaxInt64 }}
	all := []repo.Message{{ID: repo.NewID(), Role: repo.RoleSystem}, {ID: repo.NewID(), Sequence: 1, Role: repo.RoleSystem}}
	if w, err := o.fit(history{messages: all, stays: isInstruction}); !errors.Is(err, repo.ErrLimit) {
		t.Errorf("%+v, %v", w, err)
	}
}

func BenchmarkEstimate(b *testing.B) {
	m := repo.Message{Content: string(make([]byte, 1000))}
	for b.Loop() {
		Estimate(m)
	}
}

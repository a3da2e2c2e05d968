package window

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
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

// refused returns why a provider would refuse a prompt: the rules of the providers' interfaces for messages. A result
// follows its call with nothing but other calls made together and their results in between; every call has one result,
// except where the prompt ends with those that are under way; a call id is used by one call of those made together.
// Instructions may stand anywhere but between a call and its results.
func refused(prompt []repo.Message) string {
	waiting := map[string]bool{}
	results := false
	for i, m := range prompt {
		calls := callsIn(m)
		if results && len(waiting) == 0 {
			results = false
		}
		for _, id := range calls {
			if results || waiting[id] {
				return fmt.Sprintf("message %d calls before the results of the calls before are there", i)
			}
			waiting[id] = true
		}
		switch {
		case len(calls) > 0:
		case m.CallID != "": // a result
			if !waiting[m.CallID] {
				return fmt.Sprintf("message %d is the result of a call that is not right before it, or has one", i)
			}
			results = true
			delete(waiting, m.CallID)
		case len(waiting) > 0:
			return fmt.Sprintf("message %d follows calls without results", i)
		}
	}
	return ""
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

// A prompt is one that a provider accepts, whatever the history, and fits. It has what always stays, and the newest of the
// others. The last messages that fit, which is what many do, would be refused.
func TestRandomPrompts(t *testing.T) {
	t.Parallel()
	naive, cut, tooLarge, alone, histories := 0, 0, 0, 0, 20_000
	if os.Getenv("AGENTSTORE_TEST_FULL") != "" { // see make test/full
		histories = 1_000_000
	}
	for seed := range uint64(histories) {
		r := rand.New(rand.NewPCG(seed, 0))
		all := randomHistory(r, 1+r.IntN(60))
		o := Options{Tokens: 1 + r.Int64N(1500), Messages: 1000, Calls: callsIn}
		if r.IntN(4) == 0 {
			o.Messages = 10 + r.IntN(60)
		}
		h := history{messages: all, stays: isInstruction}
		if r.IntN(2) == 0 { // as the store reads it
			h = asRead(o, all)
		}
		w, err := o.fit(h)
		if err != nil {
			if tokens, messages := needed(o, h); tokens <= o.Tokens && messages <= o.Messages {
				t.Fatalf("seed %d: %v, but what is needed are %d of %d tokens, %d of %d messages", seed, err, tokens, o.Tokens, messages, o.Messages)
			}
			tooLarge++
			continue
		}
		if tokens, _ := needed(o, h); tokens > o.Tokens {
			t.Fatalf("seed %d: what is needed are %d of %d tokens", seed, tokens, o.Tokens)
		}
		if why := refused(w.Messages); why != "" {
			t.Fatalf("seed %d: %s\n%v", seed, why, w.Messages)
		}
		if w.Tokens > o.Tokens || w.Tokens != o.tokensOf(group{messages: w.Messages}) {
			t.Fatalf("seed %d: %d of %d tokens", seed, w.Tokens, o.Tokens)
		}
		checkComplete(t, seed, all, w)
		newest := int64(-1)
		read := o.groups(h.messages)
		kept, _ := o.whole(read, o.open(read), h.cut)
		for _, g := range kept {
			if !isInstruction(g.messages[0]) {
				newest = max(newest, g.end())
			}
		}
		isNewest := func(m repo.Message) bool { return m.Sequence == newest }
		if newest >= 0 && !slices.ContainsFunc(w.Messages, isNewest) {
			t.Fatalf("seed %d: message %d, the newest, is missing", seed, newest)
		}
		at := slices.IndexFunc(w.Messages, o.asks)
		if slices.ContainsFunc(all, o.asks) && at < 0 {
			t.Fatalf("seed %d: the question is missing", seed)
		}
		if at >= 0 && w.Messages[at].Sequence < w.From {
			alone++
		}
		if w.Cut {
			cut++
		}
		if refused(lastThatFit(o, all)) != "" {
			naive++
		}
	}
	t.Logf("%d of %d were cut, %d with the question alone before the newest; %d did not fit; the last messages that fit would be refused %d times", cut, histories, alone, tooLarge, naive)
	if alone < histories/100 || tooLarge < histories/100 || naive < histories/100 || cut < histories/10 {
		t.Error("the histories would not find a way that splits calls from their results")
	}
}

// needed returns what a prompt has to have: the instructions, the question, and the newest of the others, with its calls and results.
func needed(o Options, h history) (tokens int64, messages int) {
	groups := o.groups(h.messages)
	groups, _ = o.whole(groups, o.open(groups), h.cut)
	add := func(g group) { tokens, messages = tokens+o.tokensOf(g), messages+len(g.messages) }
	newest, question := -1, -1
	spoke, last := o.spoke(groups)
	for i, g := range groups {
		switch {
		case isInstruction(g.messages[0]) || last != none && i != last && g.end() >= spoke:
			add(g)
			continue
		case o.isUser(g):
			question = i
		}
		newest = i
	}
	if newest >= 0 {
		add(groups[newest])
	} else if h.cut {
		return math.MaxInt64, 0
	}
	if h.question != nil {
		add(group{messages: []repo.Message{*h.question}})
	} else if question >= 0 && question != newest {
		add(groups[question])
	}
	return tokens, messages
}

// checkComplete checks that no message is missing that should be there.
func checkComplete(t *testing.T, seed uint64, all []repo.Message, w Window) {
	t.Helper()
	there := map[repo.ID]bool{}
	for _, m := range w.Messages {
		if there[m.ID] {
			t.Fatalf("seed %d: message %d is there twice", seed, m.Sequence)
		}
		there[m.ID] = true
	}
	for _, m := range w.Dropped {
		if there[m.ID] || m.CallID == "" && len(callsIn(m)) == 0 {
			t.Fatalf("seed %d: message %d is said to be left out", seed, m.Sequence)
		}
		there[m.ID] = true
	}
	for _, m := range all {
		ofCall := m.CallID != "" || len(callsIn(m)) > 0
		if !there[m.ID] && (isInstruction(m) || m.Sequence >= w.From && len(w.Messages) > 0 && w.From > 0 && !ofCall) {
			t.Fatalf("seed %d: message %d is missing, though the tail begins at %d", seed, m.Sequence, w.From)
		}
	}
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

// lastThatFit keeps the instructions and the last messages that fit, and looks at no calls.
func lastThatFit(o Options, all []repo.Message) []repo.Message {
	room, begin := o.Tokens, len(all)
	for ; begin > 0; begin-- {
		if room -= all[begin-1].Tokens; room < 0 {
			break
		}
	}
	return all[begin:]
}

// The begin of a prompt rarely changes while messages are added.
func TestPrefixStays(t *testing.T) {
	t.Parallel()
	o := Options{Tokens: 2000, Messages: 1000, Calls: callsIn}
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 1))
		all := randomHistory(r, 1000)
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

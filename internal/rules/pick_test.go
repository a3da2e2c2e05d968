package rules_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// candidates returns one for each word, such as a/x2: a namespace, an action and a priority. Each waits for longer than the next one.
// A word that ends with ! has a claim that has expired.
func candidates(words string) (found []rules.Candidate) {
	for i, word := range strings.Fields(words) {
		c := rules.Candidate{Plan: repo.ID{byte(i)}, Namespace: word[:1], Action: word[2:3], Since: time.Unix(int64(i), 0), Expired: strings.HasSuffix(word, "!")}
		if len(word) > 3 && !c.Expired {
			c.Priority = int(word[3] - '0')
		}
		found = append(found, c)
	}
	return found
}

func places(order []rules.Candidate) string {
	var text strings.Builder
	for _, c := range order {
		text.WriteByte('0' + c.Plan[0])
	}
	return text.String()
}

// What has expired comes first, then the namespaces take turns, and in each what has the higher priority, and has waited longer.
func TestPickOrder(t *testing.T) {
	limit := func(namespace, action string) repo.PlanLimit {
		return repo.PlanLimit{Namespace: namespace, Action: action}
	}
	for name, test := range map[string]struct {
		words string
		rooms rules.Rooms
		most  int
		order string
		taken int
	}{
		"one namespace":                     {"a/x a/x1 a/x a/x3", nil, 3, "3102", 3},
		"namespaces take turns":             {"b/x b/x b/x a/x a/x", nil, 9, "30412", 5},
		"what has expired is first":         {"b/x a/x a/x! b/x!", nil, 2, "2310", 2},
		"a limit of a namespace":            {"a/x a/y a/x b/x", rules.Rooms{limit("a", ""): 2}, 9, "0312", 3},
		"a limit of an action":              {"a/x a/x a/x a/y b/x", rules.Rooms{limit("a", "x"): 1}, 9, "04312", 3},
		"both":                              {"a/x a/x a/y a/y", rules.Rooms{limit("a", "x"): 1, limit("a", ""): 2}, 9, "0213", 2},
		"what has expired is counted":       {"a/x! a/x", rules.Rooms{limit("a", ""): 0}, 9, "01", 1},
		"what has expired above its limit":  {"a/x! a/x", rules.Rooms{limit("a", ""): -1}, 9, "1", 0},
		"another namespace is not its turn": {"a/x a/x", rules.Rooms{limit("b", ""): 0}, 1, "01", 1},
		"nothing":                           {"", nil, 9, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := rules.Choice{Candidates: candidates(test.words), Turns: []string{"a", "b"}, Rooms: test.rooms, Most: test.most}
			order, taken := c.Pick()
			if places(order) != test.order || taken != test.taken {
				t.Errorf("%s, of which %d, want %s and %d", places(order), taken, test.order, test.taken)
			}
		})
	}
}

// An answer ends before it has too many bytes, with one plan at least.
func TestPickBytes(t *testing.T) {
	const unit = limits.MaxReadBytes / 16
	for name, test := range map[string]struct {
		sizes []int
		taken []int // by each of several claims
	}{
		"small ones":          {[]int{1, 1, 1}, []int{3}},
		"a large one alone":   {[]int{17, 1}, []int{1, 1}},
		"as many as fit":      {[]int{7, 8, 1, 9, 3, 3, 0, 14}, []int{2, 3, 2, 1}},
		"what fits is behind": {[]int{9, 9, 1}, []int{1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			all := candidates(strings.Repeat("a/x ", len(test.sizes)))
			for i, size := range test.sizes {
				all[i].Bytes = size * unit
			}
			for _, want := range test.taken {
				c := rules.Choice{Candidates: all, Turns: []string{"a"}, Most: 100}
				lock(t, &c, func(rules.Candidate) bool { return true })
				if len(c.Taken) != want || len(all) > want != c.IsFull() {
					t.Fatalf("%d are taken, want %d; full: %t", len(c.Taken), want, c.IsFull())
				}
				all = c.Candidates
			}
		})
	}
}

// What does not fit keeps its turn, unless what is taken in place of others that are locked leaves room for it.
func TestPickBytesInTurns(t *testing.T) {
	for name, test := range map[string]struct {
		locked int // place of a candidate
		taken  string
	}{
		"nothing is locked":            {-1, "0"},
		"the large one is":             {0, "213"},
		"what would not fit is locked": {2, "0"},
	} {
		t.Run(name, func(t *testing.T) {
			all := candidates("a/x a/x b/x a/x")
			all[0].Bytes, all[2].Bytes = limits.MaxReadBytes-1, limits.MaxReadBytes/2
			c := rules.Choice{Candidates: all, Turns: []string{"a", "b"}, Most: 100}
			lock(t, &c, func(one rules.Candidate) bool { return test.locked < 0 || one.Plan != (repo.ID{byte(test.locked)}) })
			if got := places(c.Taken); got != test.taken || c.IsFull() != (len(test.taken) == 1) {
				t.Errorf("took %s, want %s; full: %t", got, test.taken, c.IsFull())
			}
		})
	}
}

// lock locks what a choice tries, as far as it is free. It fails if more is locked than is taken.
func lock(t *testing.T, c *rules.Choice, free func(rules.Candidate) bool) {
	t.Helper()
	for tries := c.Tries(); len(tries) > 0; tries = c.Tries() {
		for _, try := range tries {
			var locked []repo.ID
			for _, one := range try.Of {
				if len(locked) < try.Most && free(one) {
					locked = append(locked, one.Plan)
				}
			}
			before := len(c.Taken)
			if c.Settle(try, locked); len(c.Taken) != before+len(locked) {
				t.Fatalf("%d were locked, and %d taken", len(locked), len(c.Taken)-before)
			}
		}
	}
}

// Whatever is locked by others: limits and bounds hold, nothing is taken twice, and nothing is left that could be taken.
func TestTriesBesideLocks(t *testing.T) {
	for range 2000 {
		var words strings.Builder
		for range rand.N(40) {
			words.WriteString([]string{"a/x", "a/y1", "b/x2", "b/y", "a/x!", "b/y!"}[rand.N(6)] + " ")
		}
		all := candidates(words.String())
		rooms := rules.Rooms{}
		for _, key := range []repo.PlanLimit{{Namespace: "a"}, {Namespace: "a", Action: "x"}, {Namespace: "b", Action: "y"}} {
			if rand.N(2) == 0 {
				rooms[key] = rand.N(5) - 1
			}
		}
		locked := map[repo.ID]bool{}
		large := rand.N(3) == 0
		for i := range all {
			locked[all[i].Plan] = rand.N(2) == 0
			if large {
				all[i].Bytes = rand.N(limits.MaxReadBytes / 2)
			}
		}
		c := rules.Choice{Candidates: slices.Clone(all), Turns: []string{"a", "b"}, Rooms: rooms, Most: 1 + rand.N(10)}
		lock(t, &c, func(one rules.Candidate) bool { return !locked[one.Plan] })
		bytes, seen := 0, map[repo.ID]bool{}
		for _, one := range c.Taken {
			if bytes += one.Bytes; seen[one.Plan] || locked[one.Plan] {
				t.Fatalf("%v is taken twice, or locked", one)
			}
			seen[one.Plan] = true
		}
		for key, room := range c.Rooms {
			if room < -1 {
				t.Fatalf("the limit %+v is exceeded", key)
			}
		}
		if len(c.Taken) > c.Most || bytes >= limits.MaxReadBytes && len(c.Taken) > 1 {
			t.Fatalf("%d plans of %d bytes are taken, of %d", len(c.Taken), bytes, c.Most)
		}
		if c.IsFull() {
			continue
		}
		for _, one := range all {
			if !seen[one.Plan] && !locked[one.Plan] && c.Rooms.Allow(one) {
				t.Fatalf("%v is left, with %v", one, c.Rooms)
			}
		}
	}
}

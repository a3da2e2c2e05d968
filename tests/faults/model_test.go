package faults

import (
	"hash/maphash"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"pgregory.net/rapid"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
)

// The operations of a history, and their outcomes. A new kind of operation needs a
// step in the model, and fields in operation.
const (
	appendAny = "append"   // Messages; First if it is done
	appendAt  = "appendAt" // the same, at Expected; Next if it conflicts
	readFrom  = "from"     // From, Limit; Read if it is done
	readLast  = "last"     // Limit; Read if it is done

	done       = "done"
	conflicted = "conflicted"
	refused    = "refused" // certainly nothing was written
	unknown    = "unknown"
)

// operation is one call of a client, on one session.
type operation struct {
	Client, Number int
	Kind, Outcome  string
	Call, Return   int64 // in nanoseconds of a clock that all processes share

	Messages              []repo.ID
	Expected, First, Next int64
	From, Limit           int64
	Read                  []repo.ID
}

// list is the model's state: the messages in order. It never changes; the states of a
// search share their common parts.
type list struct {
	before *list
	last   repo.ID
	length int64
	hash   uint64 // of the whole list
}

func (l *list) size() int64 {
	if l == nil {
		return 0
	}
	return l.length
}

var seed = maphash.MakeSeed()

func (l *list) push(ids []repo.ID) *list {
	for _, id := range ids {
		var before uint64
		if l != nil {
			before = l.hash
		}
		l = &list{l, id, l.size() + 1, maphash.Comparable(seed, struct {
			before uint64
			id     repo.ID
		}{before, id})}
	}
	return l
}

// find returns the sequence of a message, or -1.
func (l *list) find(id repo.ID) int64 {
	for ; l != nil; l = l.before {
		if l.last == id {
			return l.length - 1
		}
	}
	return -1
}

// part returns the messages from one sequence up to, but not including, another.
func (l *list) part(from, to int64) []repo.ID {
	from, to = max(0, from), min(to, l.size())
	if from >= to {
		return nil
	}
	part := make([]repo.ID, to-from)
	for ; l.size() > from; l = l.before {
		if l.length <= to {
			part[l.length-1-from] = l.last
		}
	}
	return part
}

// model is the contract of a session's messages for sequential operations.
var model = porcupine.Model{
	Init: func() any { return (*list)(nil) },
	Step: func(state, input, _ any) (bool, any) {
		l, o := state.(*list), input.(operation)
		switch o.Kind {
		case readFrom:
			return slices.Equal(o.Read, l.part(o.From, o.From+o.Limit)), l
		case readLast:
			return slices.Equal(o.Read, l.part(l.size()-o.Limit, l.size())), l
		case appendAny, appendAt:
			return stepAppend(l, o)
		}
		return false, l
	},
	Equal: func(a, b any) bool {
		x, y := a.(*list), b.(*list)
		return x.size() == y.size() && (x == nil || x.hash == y.hash)
	},
}

func stepAppend(l *list, o operation) (legal bool, next *list) {
	if at := l.find(o.Messages[0]); at >= 0 { // sent again
		return o.Outcome != conflicted && (o.Outcome == unknown || at == o.First), l
	}
	fits := o.Kind == appendAny || o.Expected == l.size()
	if o.Outcome == conflicted {
		return !fits && o.Next == l.size(), l
	}
	// For an unknown outcome, First is from the session's final state.
	return fits && o.First == l.size(), l.push(o.Messages)
}

// check reports whether the operations on one session could have happened one after
// the other, each between its call and its return. last is the session's final state.
//
// An operation with an unknown outcome may take effect at any time after its call, or
// never. The final state shows which: messages are never moved or removed, so what
// last has at a sequence was written there, and what it does not have was never
// written. (If an operation was sent twice, either may have written the message.) A
// refused operation is left out: if a read has a message of it, the history is
// illegal.
func check(t *testing.T, history []operation, last []repo.ID) porcupine.CheckResult {
	t.Helper()
	var checked []porcupine.Operation
	var end int64
	for _, o := range history {
		end = max(end, o.Return)
		switch o.Outcome {
		case refused:
			continue
		case unknown:
			if o.Kind != appendAny && o.Kind != appendAt {
				continue
			}
			at := slices.Index(last, o.Messages[0])
			if at < 0 {
				continue
			}
			o.First, o.Return = int64(at), math.MaxInt64
		}
		checked = append(checked, porcupine.Operation{ClientId: o.Client, Input: o, Call: o.Call, Return: o.Return})
	}
	checked = append(checked, porcupine.Operation{
		Input: operation{Kind: readFrom, Limit: math.MaxInt64, Read: last}, Call: end + 1, Return: end + 2,
	})
	return porcupine.CheckOperationsTimeout(model, checked, time.Until(await.End(t)))
}

// The checker distinguishes legal histories from illegal ones.
func TestModel(t *testing.T) {
	t.Parallel()
	a, b, c := repo.NewID(), repo.NewID(), repo.NewID()
	add := func(call, end, first int64, ids ...repo.ID) operation {
		return operation{Kind: appendAny, Outcome: done, Call: call, Return: end, Messages: ids, First: first}
	}
	at := func(call, end, expected int64, outcome string, next int64, id repo.ID) operation {
		return operation{
			Kind: appendAt, Outcome: outcome, Call: call, Return: end, Messages: []repo.ID{id},
			Expected: expected, First: expected, Next: next,
		}
	}
	read := func(call, end int64, ids ...repo.ID) operation {
		return operation{Kind: readFrom, Outcome: done, Call: call, Return: end, Limit: 10, Read: ids}
	}
	lost := func(call int64, id repo.ID) operation {
		return operation{Kind: appendAny, Outcome: unknown, Call: call, Return: call + 1, Messages: []repo.ID{id}}
	}
	for _, test := range []struct {
		name    string
		legal   bool
		last    []repo.ID
		history []operation
	}{
		{"one after the other", true, []repo.ID{a, b}, []operation{add(1, 2, 0, a), add(3, 4, 1, b), read(5, 6, a, b)}},
		{"at once, the later first", true, []repo.ID{b, a}, []operation{add(1, 4, 1, a), add(2, 3, 0, b)}},
		{"out of order", false, []repo.ID{b, a}, []operation{add(1, 2, 1, a), add(3, 4, 0, b)}},
		{"one sequence twice", false, []repo.ID{a, b}, []operation{add(1, 4, 0, a), add(2, 3, 0, b)}},
		{"lost", false, []repo.ID{b}, []operation{add(1, 2, 0, a), add(3, 4, 1, b)}},
		{"gap", false, []repo.ID{a, b}, []operation{add(1, 2, 0, a), add(3, 4, 2, b)}},
		{"stale read", false, []repo.ID{a}, []operation{add(1, 2, 0, a), read(3, 4)}},
		{"read at the same time", true, []repo.ID{a}, []operation{add(1, 4, 0, a), read(2, 3)}},
		{"half a batch is read", false, []repo.ID{a, b}, []operation{add(1, 4, 0, a, b), read(2, 3, a)}},
		{"sent again", true, []repo.ID{a, b}, []operation{add(1, 2, 0, a), add(3, 4, 1, b), add(5, 6, 0, a)}},
		{"sent again, written again", false, []repo.ID{a, b, a}, []operation{add(1, 2, 0, a), add(3, 4, 1, b), add(5, 6, 2, a)}},
		{"expected", true, []repo.ID{a, b}, []operation{add(1, 2, 0, a), at(3, 4, 1, done, 0, b)}},
		{"expected too little", true, []repo.ID{a}, []operation{add(1, 2, 0, a), at(3, 4, 0, conflicted, 1, b)}},
		{"expected too little, written", false, []repo.ID{a, b}, []operation{add(1, 2, 0, a), at(3, 4, 0, done, 0, b)}},
		{"expected well, conflicted", false, []repo.ID{a}, []operation{add(1, 2, 0, a), at(3, 4, 1, conflicted, 1, b)}},
		{"conflicted, yet written", false, []repo.ID{a, b}, []operation{add(1, 2, 0, a), at(3, 4, 2, conflicted, 1, b)}},
		{"unknown, never written", true, []repo.ID{b}, []operation{lost(1, a), add(3, 4, 0, b)}},
		{"unknown, written late", true, []repo.ID{b, a}, []operation{lost(1, a), add(3, 4, 0, b), read(5, 6, b), read(7, 8, b, a)}},
		{"unknown, seen and then gone", false, []repo.ID{b}, []operation{lost(1, a), read(3, 4, a), add(5, 6, 1, b)}},
		{"unknown, sent again", true, []repo.ID{b, a}, []operation{lost(1, a), add(3, 4, 0, b), add(5, 6, 1, a)}},
		{"unknown, written twice", false, []repo.ID{a, b, a}, []operation{lost(1, a), add(3, 4, 1, b), add(5, 6, 2, a)}},
		{"refused, yet written", false, []repo.ID{a, b}, []operation{
			{Kind: appendAny, Outcome: refused, Call: 1, Return: 2, Messages: []repo.ID{a}}, add(3, 4, 1, b),
		}},
		{"from nowhere", false, []repo.ID{c}, nil},
	} {
		want := porcupine.Illegal
		if test.legal {
			want = porcupine.Ok
		}
		if got := check(t, test.history, test.last); got != want {
			t.Errorf("%s: %s, want %s", test.name, got, want)
		}
	}
}

// The model's state behaves like a slice of messages.
func TestListIsASlice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var l *list
		var all []repo.ID
		for range rapid.IntRange(0, 20).Draw(t, "batches") {
			batch := make([]repo.ID, rapid.IntRange(1, 3).Draw(t, "size"))
			for i := range batch {
				batch[i] = repo.NewID()
			}
			l, all = l.push(batch), append(all, batch...)
		}
		if l.size() != int64(len(all)) || l.find(repo.NewID()) != -1 {
			t.Fatalf("%d messages, want %d", l.size(), len(all))
		}
		for i, id := range all {
			if l.find(id) != int64(i) {
				t.Fatalf("message %d is at %d", i, l.find(id))
			}
		}
		from := rapid.Int64Range(-2, 70).Draw(t, "from")
		to := rapid.Int64Range(from, 70).Draw(t, "to")
		first, last := min(max(0, from), int64(len(all))), min(max(0, to), int64(len(all)))
		if !slices.Equal(l.part(from, to), all[first:last]) {
			t.Fatalf("from %d to %d is wrong", from, to)
		}
	})
}

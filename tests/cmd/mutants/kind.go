package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// kind is a kind of change. It offers candidates in a function or a piece of SQL. The one that
// is meant mentions about: identifiers, perhaps with dots between them, parameters or literals.
type kind struct {
	name  string
	about []string
	inGo  func(*goScope) []candidate
	inSQL func(*sqlScope) []candidate
}

func (k kind) String() string { return fmt.Sprintf("%s(%s)", k.name, strings.Join(k.about, ", ")) }

// candidate is something that a kind of change can change.
type candidate struct {
	// what it is. A candidate that contains another is not meant.
	span
	// names is the part that must mention what is changed.
	names span
	edits []edit
}

type span struct{ from, to int }

func (s span) contains(other span) bool {
	return s.from <= other.from && other.to <= s.to && s != other
}

// token is a word, a literal or an operator of Go or SQL.
type token struct {
	span
	text string
}

var errNotHere = errors.New("there is no such kind of change for it")

// choose returns the edits of the only candidate that mentions all of about.
func choose(text string, tokens []token, about []string, candidates []candidate) ([]edit, error) {
	var meant []candidate
	for _, c := range candidates {
		if !slices.ContainsFunc(about, func(name string) bool { return !mentions(tokens, c.names, name) }) {
			meant = append(meant, c)
		}
	}
	innermost := slices.DeleteFunc(slices.Clone(meant), func(c candidate) bool {
		return slices.ContainsFunc(meant, func(other candidate) bool { return c.contains(other.span) })
	})
	// What mentions it itself is meant rather than what has it beside.
	direct := slices.DeleteFunc(slices.Clone(innermost), func(c candidate) bool {
		return slices.ContainsFunc(about, func(name string) bool { return !mentions(tokens, c.span, name) })
	})
	if len(direct) > 0 {
		innermost = direct
	}
	switch len(innermost) {
	case 0:
		return nil, fmt.Errorf("nothing fits. Candidates:%s", listed(text, candidates))
	case 1:
		return innermost[0].edits, nil
	}
	return nil, fmt.Errorf("%d places fit:%s", len(innermost), listed(text, innermost))
}

// listed lists candidates, a line for each.
func listed(text string, candidates []candidate) string {
	var lines strings.Builder
	for _, c := range candidates {
		shown := strings.Join(strings.Fields(text[c.from:c.to]), " ")
		if len(shown) > 100 {
			shown = shown[:100] + "…"
		}
		fmt.Fprintf(&lines, "\n\tline %d: %s", 1+strings.Count(text[:c.from], "\n"), shown)
	}
	if lines.Len() == 0 {
		return " none"
	}
	return lines.String()
}

// mentions reports whether a name is among the tokens within a span.
func mentions(tokens []token, within span, name string) bool {
	parts := []string{name}
	if !strings.HasPrefix(name, "'") {
		parts = strings.Split(strings.ReplaceAll(name, ".", "\x00.\x00"), "\x00")
	}
	for i := range tokens {
		if tokens[i].from < within.from || i+len(parts) > len(tokens) || tokens[i+len(parts)-1].to > within.to {
			continue
		}
		same := true
		for j, part := range parts {
			same = same && tokens[i+j].text == part
		}
		if same {
			return true
		}
	}
	return false
}

// always makes a condition, or one part of it beside && or AND, true.
func always(about ...string) kind {
	return kind{"always", about, (*goScope).alwaysTrue, func(s *sqlScope) []candidate { return s.operands("(true OR (", "))") }}
}

// never makes a condition, or one part of it beside || or OR, false.
func never(about ...string) kind {
	return kind{"never", about, (*goScope).alwaysFalse, func(s *sqlScope) []candidate { return s.operands("(false AND (", "))") }}
}

// neverAll makes a whole condition of an if, a for or a case false.
func neverAll(about ...string) kind {
	return kind{"neverAll", about, (*goScope).allFalse, nil}
}

// shift makes < of <=, and so on.
func shift(about ...string) kind {
	to := map[string]string{"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
	return kind{
		"shift", about,
		func(s *goScope) []candidate { return s.comparisons(to) },
		func(s *sqlScope) []candidate { return s.comparisons(to) },
	}
}

// negate makes <> of =, and so on.
func negate(about ...string) kind {
	return kind{
		"negate", about,
		func(s *goScope) []candidate {
			return s.comparisons(map[string]string{"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"})
		},
		func(s *sqlScope) []candidate {
			return s.comparisons(map[string]string{"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"})
		},
	}
}

// swap writes one name in the place of another, in the statement that mentions about.
func swap(name, by string, about ...string) kind {
	return kind{
		"swap " + name + " for " + by, about,
		func(s *goScope) []candidate { return s.uses(name, by) },
		func(s *sqlScope) []candidate { return s.uses(name, by) },
	}
}

// dropCall drops a statement that is a call, also in another goroutine.
func dropCall(about ...string) kind { return kind{"dropCall", about, (*goScope).calls, nil} }

// dropDefer drops a defer.
func dropDefer(about ...string) kind { return kind{"dropDefer", about, (*goScope).defers, nil} }

// unlocked drops all calls that lock or unlock a mutex.
func unlocked(mutex string) kind {
	return kind{"unlocked " + mutex, nil, func(s *goScope) []candidate { return s.unlocked(mutex) }, nil}
}

// dropAssign drops an assignment to about, or a statement with ++ or --.
func dropAssign(about ...string) kind { return kind{"dropAssign", about, (*goScope).assignments, nil} }

// dropCase drops a case of a switch or a select.
func dropCase(about ...string) kind { return kind{"dropCase", about, (*goScope).cases, nil} }

// dropField drops a field of a composite literal.
func dropField(about string) kind { return kind{"dropField", []string{about}, (*goScope).fields, nil} }

// returns returns something else where a return statement mentions about.
func returns(instead string, about ...string) kind {
	return kind{"returns " + instead, about, func(s *goScope) []candidate { return s.returned(instead) }, nil}
}

// dropLock drops a clause such as FOR UPDATE, with SKIP LOCKED.
func dropLock(about ...string) kind {
	return kind{"dropLock", about, nil, func(s *sqlScope) []candidate { return s.locks(true, true) }}
}

// dropWait drops a clause such as FOR UPDATE that has no SKIP LOCKED.
func dropWait(about ...string) kind {
	return kind{"dropWait", about, nil, func(s *sqlScope) []candidate { return s.locks(false, true) }}
}

// dropSkip drops SKIP LOCKED.
func dropSkip(about ...string) kind {
	return kind{"dropSkip", about, nil, func(s *sqlScope) []candidate { return s.locks(true, false) }}
}

// dropConflict drops ON CONFLICT, with what it does.
func dropConflict() kind {
	return kind{"dropConflict", nil, nil, func(s *sqlScope) []candidate { return s.conflicts("") }}
}

// doNothing does nothing on a conflict, and takes no lock.
func doNothing() kind {
	return kind{"doNothing", nil, nil, func(s *sqlScope) []candidate { return s.conflicts("ON CONFLICT DO NOTHING") }}
}

// dropSet drops the assignment to a column.
func dropSet(column string) kind { return kind{"dropSet", []string{column}, nil, (*sqlScope).sets} }

// dropLimit drops LIMIT.
func dropLimit(about ...string) kind { return kind{"dropLimit", about, nil, (*sqlScope).limits} }

// dropOrder drops ORDER BY.
func dropOrder(about ...string) kind {
	return kind{"dropOrder", about, nil, func(s *sqlScope) []candidate { return s.orders(false) }}
}

// reverse orders by the same columns, backwards.
func reverse(about ...string) kind {
	return kind{"reverse", about, nil, func(s *sqlScope) []candidate { return s.orders(true) }}
}

// last replaces a call of a function such as greatest by its last argument.
func last(function string, about ...string) kind {
	return kind{"last of " + function, about, nil, func(s *sqlScope) []candidate { return s.lastArguments(function) }}
}

// dropStatement drops a statement of a function in PL/pgSQL.
func dropStatement(about ...string) kind {
	return kind{"dropStatement", about, nil, (*sqlScope).statements}
}

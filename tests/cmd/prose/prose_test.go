package main

import (
	"slices"
	"strings"
	"testing"
)

// The bounds of 100 words of a page. A page that has become better gets a lower bound, or loses its own.
const (
	maxNegations = 1.0
	maxPronouns  = 0.3
)

// others are the pages that have a bound of their own: negations, pronouns.
var others = map[string][2]float64{
	"CONTRIBUTING.md": {1.0, 0.5}, // which quotes some
}

// Documents say what happens: a negation takes the place of a statement, a pronoun that of a noun.
func TestProse(t *testing.T) {
	t.Chdir("../../..")
	counts, err := documents(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if len(counts) < 30 {
		t.Errorf("there are only %d documents", len(counts))
	}
	for _, c := range counts {
		bound, own := others[c.name]
		if !own {
			bound = [2]float64{maxNegations, maxPronouns}
		}
		delete(others, c.name)
		if c.inHundred > bound[0] {
			t.Errorf("%s has %.2f negations in 100 words; the bound is %.2f: %s", c.name, c.inHundred, bound[0], strings.Join(c.negations, ", "))
		}
		if c.vague > bound[1] {
			t.Errorf("%s has %.2f vague pronouns in 100 words; the bound is %.2f: %s", c.name, c.vague, bound[1], strings.Join(c.pronouns, ", "))
		}
	}
	for name := range others {
		t.Errorf("%s has a bound, and does not exist", name)
	}
}

// What is prose is counted, and what is not is left out.
func TestCountIn(t *testing.T) {
	text := "# Not a heading\n\nIt never sends `not` [without](none.md) an id, and can't be that of somebody.\n\n```go\nnot()\n```\n<!-- no -->\n"
	c := countIn("a.md", text)
	if want := []string{"never", "without", "can't"}; !slices.Equal(c.negations, want) {
		t.Errorf("negations %q, want %q", c.negations, want)
	}
	if want := []string{"that of", "somebody"}; !slices.Equal(c.pronouns, want) {
		t.Errorf("pronouns %q, want %q", c.pronouns, want)
	}
}

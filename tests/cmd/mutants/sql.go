package main

import (
	"regexp"
	"slices"
	"strings"
)

// sqlScope is a query, a part of one, or an object of the schema: tokens of a file from lo up
// to hi.
type sqlScope struct {
	path, text string
	// begin and end are where the query or the object is in the text.
	begin, end int
	tokens     []token
	// pair has, for each token that opens something, the one that closes it.
	pair   map[int]int
	lo, hi int
}

// A token is a comment or a space (which are skipped), a text, a name, a parameter, a number or
// an operator.
var sqlToken = regexp.MustCompile(`^(?:\s+|--[^\n]*|(?s:/\*.*?\*/))|` +
	`^[eE]?'(?:[^']|'')*'|^"[^"]*"|^\$\w*\$|^@?[A-Za-z_]\w*|^[0-9][\w.]*|^(?:<=|>=|<>|!=|::|\|\||:=|->>|->|=>)|^.`)

// scanSQL returns the tokens of text from from up to to. What stands between $tag$ and $tag$
// is one of them.
func scanSQL(path, text string, from, to int) *sqlScope {
	s := &sqlScope{path: path, text: text, begin: from, end: to, pair: map[int]int{}}
	for at := from; at < to; {
		found := sqlToken.FindString(text[at:to])
		if len(found) > 1 && found[0] == '$' {
			if end := strings.Index(text[at+len(found):to], found); end >= 0 {
				found = text[at : at+end+2*len(found)]
			}
		}
		if strings.TrimSpace(found) != "" && !strings.HasPrefix(found, "--") && !strings.HasPrefix(found, "/*") {
			s.tokens = append(s.tokens, token{span{at, at + len(found)}, found})
		}
		at += len(found)
	}
	var open []int
	for i := range s.tokens {
		switch s.word(i) {
		case "(", "[", "CASE":
			open = append(open, i)
		case ")", "]", "END":
			if len(open) > 0 && (s.word(i) == "END") == (s.word(open[len(open)-1]) == "CASE") {
				s.pair[open[len(open)-1]] = i
				open = open[:len(open)-1]
			}
		}
	}
	s.hi = len(s.tokens)
	return s
}

// word is a token in capitals, or nothing.
func (s *sqlScope) word(i int) string {
	if i < 0 || i >= len(s.tokens) {
		return ""
	}
	return strings.ToUpper(s.tokens[i].text)
}

func (s *sqlScope) words(i int, words ...string) bool {
	for j, word := range words {
		if s.word(i+j) != word {
			return false
		}
	}
	return true
}

func (s *sqlScope) of(lo, hi int) span { return span{s.tokens[lo].from, s.tokens[hi-1].to} }

// levels calls visit with each list of tokens that are within the same brackets: its bounds. At
// the beginning of a bracket, the list skips to its end.
func (s *sqlScope) levels(visit func(lo, hi int)) {
	visit(s.lo, s.hi)
	for i := s.lo; i < s.hi; i++ {
		if end, opens := s.pair[i]; opens {
			visit(i+1, end)
		}
	}
}

// next returns the token after i on its level.
func (s *sqlScope) next(i int) int {
	if end, opens := s.pair[i]; opens {
		return end + 1
	}
	return i + 1
}

// separators end one part of a statement and begin another. Those that conditions have
// follows are true.
var separators = map[string]bool{
	"AND": true, "OR": true, "WHERE": true, "ON": true, "HAVING": true, "WHEN": true, "IF": true, "ELSIF": true, "CHECK": true,
	"SELECT": false, "FROM": false, "GROUP": false, "ORDER": false, "LIMIT": false, "OFFSET": false, "FOR": false, "RETURNING": false,
	"UNION": false, "AS": false, "SET": false, ",": false, ";": false, "JOIN": false, "LEFT": false, "CROSS": false, "INNER": false,
	"USING": false, "VALUES": false, "DO": false, "CONFLICT": false, "THEN": false, "ELSE": false, "LOOP": false, "BEGIN": false,
	"RETURN": false, "DECLARE": false, "EXECUTE": false, "INTO": false, ":=": false,
}

// runs calls visit with each part between separators of a level, and these.
func (s *sqlScope) runs(visit func(lo, hi int, left, right string)) {
	s.levels(func(lo, hi int) {
		left, start, between := "", lo, false
		if lo > 1 && s.word(lo-1) == "(" && s.word(lo-2) == "CHECK" {
			left = "CHECK"
		}
		for i := lo; i < hi; i = s.next(i) {
			word := s.word(i)
			if _, separates := separators[word]; !separates || word == "AND" && between || word == "FROM" && s.word(i-1) == "DISTINCT" {
				between = between && word != "AND" || word == "BETWEEN"
				continue
			}
			if i > start {
				visit(start, i, left, word)
			}
			left, start, between = word, i+1, false
		}
		if hi > start {
			visit(start, hi, left, "")
		}
	})
}

// operands are conditions, and what is beside AND and OR. One that is made constant remains,
// so that its parameters do.
func (s *sqlScope) operands(before, after string) (all []candidate) {
	s.runs(func(lo, hi int, left, right string) {
		if separators[left] || right == "AND" || right == "OR" {
			all = append(all, around(s.of(lo, hi), before, after))
		}
	})
	return all
}

func (s *sqlScope) comparisons(to map[string]string) (all []candidate) {
	s.runs(func(lo, hi int, _, _ string) {
		for i := lo; i < hi; i = s.next(i) {
			if by := to[s.tokens[i].text]; by != "" {
				all = append(all, candidate{s.of(lo, hi), s.of(lo, hi), []edit{{s.tokens[i].from, s.tokens[i].to, by}}})
			}
		}
	})
	return all
}

func (s *sqlScope) uses(name, by string) (all []candidate) {
	s.runs(func(lo, hi int, _, _ string) {
		for i := lo; i < hi; i = s.next(i) {
			if s.tokens[i].text == name {
				at := s.tokens[i].span
				all = append(all, candidate{at, s.of(lo, hi), []edit{{at.from, at.to, by}}})
			}
		}
	})
	return all
}

// selected is the beginning of the SELECT, UPDATE or DELETE of a level that i belongs to.
func (s *sqlScope) selected(lo, i int) int {
	first := lo
	for j := lo; j < i; j = s.next(j) {
		if s.words(j, "SELECT") || s.words(j, "UPDATE") || s.words(j, "DELETE") || s.words(j, "INSERT") {
			first = j
		}
	}
	return first
}

// locks are clauses such as FOR NO KEY UPDATE OF t SKIP LOCKED: those that skip, or those that
// wait, or both. Of those that skip, it is only the last part if whole is false.
func (s *sqlScope) locks(skips, whole bool) (all []candidate) {
	s.levels(func(lo, hi int) {
		for i := lo; i < hi; i = s.next(i) {
			if s.word(i) != "FOR" {
				continue
			}
			end := i + 1
			for slices.Contains([]string{"NO", "KEY"}, s.word(end)) {
				end++
			}
			if s.word(end) != "UPDATE" && s.word(end) != "SHARE" {
				continue
			}
			if end++; s.word(end) == "OF" {
				end += 2
			}
			what := s.of(i, end)
			skip := s.words(end, "SKIP", "LOCKED")
			switch {
			case skip && !skips, !skip && !whole:
				continue
			case skip && whole:
				what.to = s.tokens[end+1].to
			case skip:
				what = s.of(end, end+2)
			}
			all = append(all, candidate{what, span{s.tokens[s.selected(lo, i)].from, what.to}, []edit{{what.from, what.to, ""}}})
		}
	})
	return all
}

// clauses are those that begin with words, up to the next clause.
func (s *sqlScope) clauses(words []string, ends ...string) (all []struct{ level, lo, hi int }) {
	s.levels(func(lo, hi int) {
		for i := lo; i < hi; i = s.next(i) {
			if !s.words(i, words...) {
				continue
			}
			end := i + len(words)
			for end < hi && !slices.Contains(ends, s.word(end)) {
				end = s.next(end)
			}
			all = append(all, struct{ level, lo, hi int }{lo, i, end})
		}
	})
	return all
}

func (s *sqlScope) conflicts(instead string) (all []candidate) {
	for _, c := range s.clauses([]string{"ON", "CONFLICT"}, "RETURNING", ";") {
		what := s.of(c.lo, c.hi)
		all = append(all, candidate{what, what, []edit{{what.from, what.to, instead}}})
	}
	return all
}

var afterOrder = []string{"LIMIT", "OFFSET", "FOR", "RETURNING", "UNION", "ON", "ROWS", ";"}

func (s *sqlScope) limits() (all []candidate) {
	for _, c := range s.clauses([]string{"LIMIT"}, afterOrder...) {
		what, count := s.of(c.lo, c.hi), s.of(c.lo+1, c.hi)
		none := "LIMIT nullif(" + s.text[count.from:count.to] + ", " + s.text[count.from:count.to] + ")"
		all = append(all, candidate{what, span{s.tokens[s.selected(c.level, c.lo)].from, what.to}, []edit{{what.from, what.to, none}}})
	}
	return all
}

func (s *sqlScope) orders(backwards bool) (all []candidate) {
	for _, c := range s.clauses([]string{"ORDER", "BY"}, afterOrder...) {
		what := s.of(c.lo, c.hi)
		edits := []edit{{what.from, what.to, ""}}
		if backwards {
			edits = s.backwards(c.lo+2, c.hi)
		}
		all = append(all, candidate{what, span{s.tokens[s.selected(c.level, c.lo)].from, what.to}, edits})
	}
	return all
}

func (s *sqlScope) backwards(lo, hi int) (edits []edit) {
	for i := lo; i < hi; {
		last := i
		for i = s.next(i); i < hi && s.word(i) != ","; i = s.next(i) {
			last = i
		}
		if i > last+1 { // it is within brackets
			last = i - 1
		}
		at := s.tokens[last]
		if s.word(last) == "DESC" {
			edits = append(edits, edit{at.from, at.to, "ASC"})
		} else {
			edits = append(edits, edit{at.to, at.to, " DESC"})
		}
		i++
	}
	return edits
}

func (s *sqlScope) sets() (all []candidate) {
	for _, c := range s.clauses([]string{"SET"}, "FROM", "WHERE", "RETURNING", ";") {
		for i := c.lo + 1; i < c.hi; {
			end := i
			for end < c.hi && s.word(end) != "," {
				end = s.next(end)
			}
			what, gap := s.of(i, end), s.of(i, end)
			if end < c.hi {
				gap.to = s.tokens[end].to
			} else if i > c.lo+1 {
				gap.from = s.tokens[i-1].from
			}
			all = append(all, candidate{what, s.of(i, i+1), []edit{{gap.from, gap.to, ""}}})
			i = end + 1
		}
	}
	return all
}

func (s *sqlScope) lastArguments(function string) (all []candidate) {
	for i := s.lo; i+1 < s.hi; i++ {
		end, opens := s.pair[i+1]
		if s.tokens[i].text != function || !opens {
			continue
		}
		comma := i + 1
		for j := i + 2; j < end; j = s.next(j) {
			if s.word(j) == "," {
				comma = j
			}
		}
		what := s.of(i, end+1)
		all = append(all, candidate{what, what, []edit{{what.from, s.tokens[comma].to, "("}}})
	}
	return all
}

// statements are those of PL/pgSQL between semicolons, without those that begin or end a block.
func (s *sqlScope) statements() (all []candidate) {
	start := s.lo
	for i := s.lo; i < s.hi; i = s.next(i) {
		switch s.word(i) {
		case "BEGIN", "THEN", "ELSE", "LOOP", "DECLARE":
			start = i + 1
		case ";":
			if i > start && s.word(start) != "END" {
				what := s.of(start, i)
				all = append(all, candidate{what, what, []edit{{what.from, what.to, "NULL"}}})
			}
			start = i + 1
		}
	}
	return all
}

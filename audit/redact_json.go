package audit

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/seed-df90f812/agentstore/internal/jsonvalue"
)

// jsonRedaction walks valid JSON once, and collects what to replace.
type jsonRedaction struct {
	jsonvalue.Scanner
	*effort

	redactor *Redactor
	in       []byte
	depth    int // of JSON within strings
	spans    []span
}

func (r *Redactor) json(document []byte, depth int, effort *effort) []byte {
	s := jsonRedaction{Scanner: jsonvalue.NewScanner(document), effort: effort, redactor: r, in: document, depth: depth}
	s.looked += len(document)
	s.value(meaning{})
	return replaceSpans(document, s.spans)
}

// replace replaces a part of the document with a text.
func (s *jsonRedaction) replace(from, to int, text string) {
	var quoted strings.Builder
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err == nil { // a string always encodes
		s.spans = append(s.spans, span{from, to, strings.TrimRight(quoted.String(), "\n")})
	}
}

// meaning is what the context of a value says about it.
type meaning struct {
	kind kind
	// many: the name is a plural, and a number is a count.
	many bool
	// schema: the name is a secret's, but the value describes it.
	schema bool
	// pairs: it is an element of an array, and may be an object of a name and its
	// value.
	pairs bool
}

func meaningOf(kind kind, name string) meaning {
	return meaning{kind: kind, many: strings.HasSuffix(strings.ToLower(name), "s")}
}

// value handles one value, and reports whether a name made any part of it a secret.
func (s *jsonRedaction) value(c meaning) bool {
	next := s.Peek()
	start := s.Pos
	switch next {
	case '{':
		return s.members(c)
	case '[':
		return s.elements(c)
	case '"':
		text := s.Lenient()
		if !isSecret(c.kind, text) {
			s.clean(start, text, s.depth)
			return false
		}
	default:
		if s.Pos += bytes.IndexAny(s.in[start:], ",]} \t\r\n"); s.Pos < start {
			s.Pos = len(s.in)
		}
		if !c.isSecret(s.in[start:s.Pos]) {
			return false
		}
	}
	s.replace(start, s.Pos, Redacted)
	return true
}

// clean replaces a string if its text contains secrets.
func (s *jsonRedaction) clean(start int, text string, depth int) {
	if clean := s.redactor.text(text, depth, s.effort); clean != text {
		s.replace(start, s.Pos, clean)
	}
}

// peekText returns the next string without consuming it.
func (s *jsonRedaction) peekText() string {
	at := s.Pos
	text := s.Lenient()
	s.see(text)
	s.Pos = at
	return text
}

// near returns what is next.
func (s *jsonRedaction) near(size int) []byte {
	s.looked += size
	return s.in[s.Pos:min(len(s.in), s.Pos+size)]
}

// isSecret reports whether a value is a secret as a whole.
func (c meaning) isSecret(raw []byte) bool {
	switch raw[0] {
	case 'n', 't', 'f': // a number may be a password; null, true and false are not
		return false
	case '{', '[':
		return c.kind != plain && len(raw) > len("{}") && !referenceTo.Match(raw[:min(len(raw), 40)])
	case '"':
		var text string
		return json.Unmarshal(raw, &text) == nil && isSecret(c.kind, text)
	}
	if c.kind == numeric {
		return len(raw) >= 4 && !bytes.ContainsAny(raw, ".eE-") && !c.schema
	}
	return !c.schema && !c.many && (c.kind >= any_ || c.kind == opaque && len(raw) >= 7)
}

var (
	// schemaOf is the beginning of an object that describes a value, and referenceTo of one that says where a secret
	// is kept.
	schemaOf = regexp.MustCompile(`^\{(?:"\$ref"|(?s:.*?)"type"[\s:\[]*"` +
		`(?:string|integer|number|object|array|boolean)")`)
	referenceTo = regexp.MustCompile(`^\{\s*"(?:secretKeyRef|valueFrom|\$ref)"`)
	// examples are the members of a schema that are values.
	examples = set("default example examples const value")
	// pairNames and pairValues are members that hold a name and its value.
	pairNames = set(`name key header headername field fieldname variable var env param parameter attribute option
		property k path envvar variablename parameterkey setting`)
	pairValues = set(`value val v values data default old new before after previous current oldvalue newvalue
		stringvalue valuestring plaintext content secretvalue from to defaultvalue parametervalue`)
	// jwkPrivate are the secret members of a JSON web key.
	jwkPrivate = set("d p q dp dq qi k")
)

// members handles an object. What its members say about one another is known at its end.
func (s *jsonRedaction) members(c meaning) (found bool) {
	c.schema = c.schema || c.kind != plain && schemaOf.Match(s.near(300))
	var named meaning // of the values, by the name beside them
	var values, private []span
	jwk := false
	s.Pos++
	for first := true; s.Next('}', first); first = false {
		s.Peek()
		start := s.Pos
		name := s.Lenient()
		if len(name) >= shortestShape { // may itself be a secret: some objects map by one
			s.clean(start, name, mostNested)
		}
		s.Colon()
		isText := s.Peek() == '"'
		start = s.Pos
		short, inner := normalKey(name), s.meaning(c, name)
		if isText && pairNames[short] {
			if text := s.peekText(); len(text) <= longestName && !strings.Contains(text, " ") {
				if text = text[strings.LastIndexByte(text, '/')+1:]; s.redactor.kindOf(text) != plain {
					named = meaningOf(s.redactor.kindOf(text), text)
				}
			}
		}
		jwk = jwk || name == "kty"
		found = s.value(inner) || found
		switch value := (span{from: start, to: s.Pos}); {
		case inner.kind != plain:
		case pairValues[short] && len(values) < 4:
			values = append(values, value)
		case isText && jwkPrivate[name] && len(private) < 8 && value.to-value.from >= 16:
			private = append(private, value)
		}
	}
	for _, value := range values {
		if named.isSecret(s.in[value.from:value.to]) {
			s.replace(value.from, value.to, Redacted)
		}
	}
	for _, value := range private {
		if jwk {
			s.replace(value.from, value.to, Redacted)
		}
	}
	return found
}

// meaning returns what a member's name says about the next value.
func (s *jsonRedaction) meaning(c meaning, name string) meaning {
	if s.in[s.Pos] == '{' && referenceTo.Match(s.near(40)) {
		return meaning{}
	}
	if c.schema {
		if examples[name] {
			return meaning{kind: c.kind}
		}
		return meaning{}
	}
	kind := s.redactor.kindOf(name)
	if kind == plain || kind < c.kind {
		return meaning{kind: c.kind, many: c.many}
	}
	if s.in[s.Pos] == '{' {
		if kind == lengthy || kind == opaque && strings.HasSuffix(strings.ToLower(name), "token") {
			return meaning{} // {"auth": {"type": "none"}}
		}
		kind = max(kind, any_)
	}
	return meaningOf(kind, name)
}

// elements handles an array. One that is a secret is replaced as a whole.
func (s *jsonRedaction) elements(c meaning) (found bool) {
	start, noted := s.Pos, len(s.spans)
	inner := meaning{kind: c.kind, many: c.many, pairs: true}
	if c.schema {
		inner = meaning{}
	}
	var command, first, before string // the first element if it is a command, and if it is a text; and the previous one
	var last span
	count := 0
	s.Pos++
	for ; s.Next(']', count == 0); count++ {
		text := ""
		if s.Peek() == '"' {
			text = s.peekText()
		}
		last.from = s.Pos
		if inner.kind == plain && s.follows(before, text) {
			s.Lenient()
			s.replace(last.from, s.Pos, Redacted)
			text = ""
		} else {
			found = s.value(inner) || found
		}
		last.to = s.Pos
		if name := text[strings.LastIndexByte(text, '/')+1:]; count == 0 {
			if first = text; commands[name] != nil {
				command = name + " "
			}
		}
		isOption := strings.HasPrefix(text, "-") || strings.HasPrefix(before, "-")
		if command != "" && len(before) < longestName && isOption {
			line := command + before + " " // the command line up to here
			clean, is := strings.CutPrefix(s.redactor.text(line+text, mostNested, s.effort), line)
			if is && clean != text {
				s.replace(last.from, last.to, clean)
			}
		}
		before = text
		if found && c.kind != plain { // the array will be replaced as a whole
			s.spans = s.spans[:noted]
		}
	}
	switch {
	case found && c.kind != plain:
		s.replace(start, s.Pos, Redacted)
	case count == 2 && c.pairs && before != "" && isSecret(s.redactor.kindOf(first), before):
		s.replace(last.from, last.to, Redacted)
	}
	return found
}

// follows reports whether an element is the value of the option or header before it, such as --password or
// Authorization.
func (s *jsonRedaction) follows(before, text string) bool {
	if before == "" || len(before) > longestName || strings.ContainsAny(before, " =") {
		return false
	}
	if !isSecret(s.redactor.kindOf(before), text) {
		return false
	}
	if before[0] == '-' {
		return text[0] != '-'
	}
	return len(text) >= 12 && isOpaque(text) && !strings.ContainsAny(text, "=/")
}

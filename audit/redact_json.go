package audit

import (
	"bytes"
	"encoding/json"
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
	s.spans = append(s.spans, span{from, to, asJSON(text)})
}

func asJSON(text string) string {
	if text != Redacted {
		var quoted strings.Builder
		encoder := json.NewEncoder(&quoted)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(text); err == nil { // a string always encodes
			return strings.TrimRight(quoted.String(), "\n")
		}
	}
	return `"` + Redacted + `"`
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

// value handles one value, and reports whether a name made any part of it a secret.
func (s *jsonRedaction) value(c meaning) bool {
	switch s.Peek() {
	case '{':
		return s.members(c)
	case '[':
		return s.elements(c)
	case '"':
		return s.text(c)
	}
	start := s.Pos
	for s.Pos < len(s.in) && strings.IndexByte(",]} \t\r\n", s.in[s.Pos]) < 0 {
		s.Pos++
	}
	if !c.isSecret(s.in[start:s.Pos]) {
		return false
	}
	s.replace(start, s.Pos, Redacted)
	return true
}

func (s *jsonRedaction) text(c meaning) bool {
	start := s.Pos
	text := s.Lenient()
	if c.kind != plain && isSecret(c.kind, text) {
		s.replace(start, s.Pos, Redacted)
		return true
	}
	s.clean(start, text, s.depth)
	return false
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

// isSecret reports whether a value is a secret as a whole.
func (c meaning) isSecret(raw []byte) bool {
	switch raw[0] {
	case 'n', 't', 'f': // a number may be a password; null, true and false are not
		return false
	case '{', '[':
		return len(raw) > len("{}") && !isReferenceTo(raw)
	case '"':
		var text string
		return json.Unmarshal(raw, &text) == nil && isSecret(c.kind, text)
	}
	switch {
	case c.schema:
		return false
	case c.kind == numeric:
		return len(raw) >= 4 && !bytes.ContainsAny(raw, ".eE-")
	}
	return !c.many && (c.kind >= any_ || c.kind == opaque && len(raw) >= 7)
}

// isSchema reports whether the next object describes a value: {"type": "string",
// …}.
func (s *jsonRedaction) isSchema() bool {
	near := string(s.in[s.Pos:min(len(s.in), s.Pos+300)])
	s.see(near)
	_, rest, found := strings.Cut(near, `"type"`)
	if !found {
		return strings.HasPrefix(near, `{"$ref"`)
	}
	return begins(strings.TrimLeft(rest, " \t\r\n:["), `"string"`, `"integer"`, `"number"`, `"object"`, `"array"`, `"boolean"`)
}

// isReferenceTo reports whether an object says where a secret is kept.
func isReferenceTo(raw []byte) bool {
	return raw[0] == '{' && begins(strings.TrimLeft(string(raw[1:min(len(raw), 40)]), " \n\t"), `"secretKeyRef"`, `"valueFrom"`, `"$ref"`)
}

// pairNames and pairValues are members that hold a name and its value.
var (
	pairNames = set(`name key header headername field fieldname variable var env param parameter attribute option property k path
		envvar variablename parameterkey setting`)
	pairValues = set(`value val v values data default old new before after previous current oldvalue newvalue stringvalue valuestring plaintext
		content secretvalue from to defaultvalue parametervalue`)
)

// jwkPrivate are the secret members of a JSON web key.
var jwkPrivate = set("d p q dp dq qi k")

// object collects what the members of an object say about one another.
type object struct {
	// name is the meaning of values by the name beside them.
	name   meaning
	values []span
	// jwk: the object is a JSON web key, so that the members in private are
	// secrets.
	jwk     bool
	private []span
}

func (s *jsonRedaction) members(c meaning) (found bool) {
	if c.kind != plain && !c.schema && s.isSchema() {
		c.schema = true
	}
	var o object
	s.Pos++
	for first := true; s.Next('}', first); first = false {
		s.Peek()
		start := s.Pos
		name := s.Lenient()
		if len(name) >= 20 { // may itself be a secret: some objects map by one
			s.clean(start, name, mostNested)
		}
		s.Colon()
		s.Peek()
		found = s.member(c, name, &o) || found
	}
	for _, value := range o.private {
		if o.jwk && value.to-value.from >= 16 {
			s.replace(value.from, value.to, Redacted)
		}
	}
	for _, value := range o.values {
		if o.name.kind != plain && o.name.isSecret(s.in[value.from:value.to]) {
			s.replace(value.from, value.to, Redacted)
		}
	}
	return found
}

// meaning returns what a member's name says about its value.
func (s *jsonRedaction) meaning(c meaning, name string) meaning {
	if isReferenceTo(s.in[s.Pos:]) {
		return meaning{}
	}
	if c.schema {
		switch name {
		case "default", "example", "examples", "const", "value":
			return meaning{kind: c.kind}
		}
		return meaning{}
	}
	kind := s.redactor.kindOf(name)
	if kind == plain || kind < c.kind {
		return meaning{kind: c.kind, many: c.many}
	}
	if s.in[s.Pos] == '{' {
		if kind == lengthy || kind == opaque && lastLetters(name) == "token" {
			return meaning{} // {"auth": {"type": "none"}}
		}
		if kind == opaque {
			kind = any_
		}
	}
	return meaning{kind: kind, many: name[len(name)-1]|0x20 == 's'}
}

var separators = strings.NewReplacer("_", "", "-", "")

func (s *jsonRedaction) member(c meaning, name string, o *object) bool {
	inner := s.meaning(c, name)
	start, isText := s.Pos, s.in[s.Pos] == '"'
	short := strings.ToLower(name)
	if len(name) <= 16 {
		short = separators.Replace(short)
	}
	if isText && has(pairNames, short) {
		text := s.peekText()
		if short == "path" {
			text = text[strings.LastIndexByte(text, '/')+1:]
		}
		if len(text) <= longestName && !strings.Contains(text, " ") {
			if kind := s.redactor.kindOf(text); kind != plain {
				o.name = meaning{kind: kind, many: text[len(text)-1]|0x20 == 's'}
			}
		}
	}
	o.jwk = o.jwk || name == "kty"
	found := s.value(inner)
	switch value := (span{from: start, to: s.Pos}); {
	case inner.kind != plain:
	case has(pairValues, short) && len(o.values) < 4:
		o.values = append(o.values, value)
		return false
	case isText && has(jwkPrivate, name) && len(o.private) < 8:
		o.private = append(o.private, value)
		return false
	}
	return found
}

// commands are those with short options for passwords.
var commands = set("sshpass redis-cli curl mysql mysqldump mysqladmin mariadb")

// elements handles an array. One that is a secret is replaced as a whole.
func (s *jsonRedaction) elements(c meaning) (found bool) {
	start, noted := s.Pos, len(s.spans)
	inner := meaning{kind: c.kind, many: c.many, pairs: true}
	if c.schema {
		inner = meaning{}
	}
	var first, before kind      // what the first element, and the previous one, say about the next
	var option, userOption bool // what the previous element is
	var command string          // the first element, if it is one of commands
	var second span
	count := 0
	s.Pos++
	for ; s.Next(']', count == 0); count++ {
		isText := s.Peek() == '"'
		from, isUser := s.Pos, userOption
		userOption = false
		if isText && inner.kind == plain && before != plain && s.isValueOf(before, option) {
			s.Lenient()
			s.replace(from, s.Pos, Redacted)
			before = plain
		} else {
			found = s.value(inner) || found
			before = plain
			if isText {
				raw := s.in[from+1 : s.Pos-1]
				before, option = s.nameOf(raw)
				switch {
				case count == 0:
					if name := raw[bytes.LastIndexByte(raw, '/')+1:]; len(name) <= longestName && has(commands, string(name)) {
						command = string(name)
					}
				case command == "sshpass" && string(raw) == "-p", command == "redis-cli" && string(raw) == "-a":
					before, option = any_, true
				case strings.HasPrefix(command, "m") && len(raw) > 3 && string(raw[:2]) == "-p" && isOpaque(string(raw[2:])):
					s.replace(from, s.Pos, "-p"+Redacted)
				case isUser && !bytes.HasPrefix(raw, []byte("-")):
					s.userAndPassword(from)
				}
				userOption = command == "curl" && (string(raw) == "-u" || string(raw) == "--user")
			}
		}
		switch {
		case count == 0:
			first = before
		case count == 1 && isText:
			second = span{from: from, to: s.Pos}
		}
		if found && c.kind != plain { // the array will be replaced as a whole
			s.spans = s.spans[:noted]
		}
	}
	if found && c.kind != plain {
		s.replace(start, s.Pos, Redacted)
	} else if count == 2 && c.pairs && second.to > 0 && first != plain && (meaning{kind: first}).isSecret(s.in[second.from:second.to]) {
		s.replace(second.from, second.to, Redacted)
	}
	return found
}

// userAndPassword replaces the password in user:password.
func (s *jsonRedaction) userAndPassword(from int) {
	s.Pos = from
	if user, password, found := strings.Cut(s.Lenient(), ":"); found && isSecret(any_, password) {
		s.replace(from, s.Pos, user+":"+Redacted)
	}
}

// nameOf returns what an element, such as --password or Authorization, says about
// the next one.
func (s *jsonRedaction) nameOf(raw []byte) (k kind, option bool) {
	if len(raw) < 3 || len(raw) > longestName-2 || bytes.ContainsAny(raw, " =") {
		return plain, false
	}
	return s.redactor.kindOf(string(raw)), raw[0] == '-'
}

// isValueOf reports whether the next element is the value of the option or header
// before it.
func (s *jsonRedaction) isValueOf(kind kind, option bool) bool {
	text := s.peekText()
	if option {
		return isSecret(kind, text) && text[0] != '-'
	}
	return isSecret(kind, text) && len(text) >= 12 && isOpaque(text) && !strings.ContainsAny(text, "=/")
}

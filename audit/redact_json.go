package audit

import (
	"bytes"
	"encoding/json"
	"strings"
)

// edit replaces a part of a document. Edits are in order of their begins; one that
// is not active does nothing, and one that is makes up for those within it, which
// end at skip.
type edit struct {
	from, to, skip int
	text           string
	active         bool
}

// jsonRedaction walks valid JSON once, and notes what to replace.
type jsonRedaction struct {
	redactor *Redactor
	in       []byte
	at       int
	depth    int // of texts within texts
	edits    []edit
}

func (r *Redactor) json(document []byte, depth int) []byte {
	s := jsonRedaction{redactor: r, in: document, depth: depth}
	s.value(meaning{})
	return s.apply()
}

func (s *jsonRedaction) apply() []byte {
	var out []byte
	copied := 0
	for i := 0; i < len(s.edits); {
		e := &s.edits[i]
		if !e.active {
			i++
			continue
		}
		if out == nil {
			out = make([]byte, 0, len(s.in)+64)
		}
		out = append(out, s.in[copied:e.from]...)
		out = appendJSON(out, e.text)
		copied, i = e.to, e.skip
	}
	if out == nil {
		return s.in
	}
	return append(out, s.in[copied:]...)
}

func appendJSON(dst []byte, text string) []byte {
	if text == Redacted {
		return append(dst, `"`+Redacted+`"`...)
	}
	var quoted bytes.Buffer
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil { // a string always encodes
		return append(dst, `"`+Redacted+`"`...)
	}
	return append(dst, bytes.TrimRight(quoted.Bytes(), "\n")...)
}

// meaning is what is known of a value from where it stands.
type meaning struct {
	kind kind
	// many: by the plural of a name, of which a number says how many.
	many bool
	// schema: its name is that of a secret, but it describes one.
	schema bool
	// pairs: it is an element of an array, and may be a name and its value.
	pairs bool
}

func (s *jsonRedaction) space() {
	for s.at < len(s.in) && (s.in[s.at] == ' ' || s.in[s.at] == '\n' || s.in[s.at] == '\t' || s.in[s.at] == '\r') {
		s.at++
	}
}

// open reserves an edit's place, before what it would replace is walked.
func (s *jsonRedaction) open() int {
	s.edits = append(s.edits, edit{from: s.at})
	return len(s.edits) - 1
}

// close ends what an edit would replace; an edit that does nothing is dropped, if it can be.
func (s *jsonRedaction) close(place int, drop bool) {
	if drop && place == len(s.edits)-1 && !s.edits[place].active {
		s.edits = s.edits[:place]
	} else if place < len(s.edits) {
		s.edits[place].skip = max(s.edits[place].skip, len(s.edits))
	}
}

// replace activates the edit for what stands up to a place.
func (s *jsonRedaction) replace(place, to int, text string) {
	e := &s.edits[place]
	e.to, e.text, e.active = to, text, true
	e.skip = max(e.skip, place+1)
}

// value passes one value, and reports whether anything in it was a secret by its
// name.
func (s *jsonRedaction) value(c meaning) bool {
	s.space()
	switch s.in[s.at] {
	case '{':
		return s.members(c)
	case '[':
		return s.elements(c)
	case '"':
		return s.text(c)
	}
	start := s.at
	for s.at < len(s.in) && strings.IndexByte(",]} \t\r\n", s.in[s.at]) < 0 {
		s.at++
	}
	if !c.secretNumber(s.in[start:s.at]) {
		return false
	}
	s.edits = append(s.edits, edit{from: start})
	s.replace(len(s.edits)-1, s.at, Redacted)
	return true
}

// secretNumber: a number may be a password. null, true and false are not.
func (c meaning) secretNumber(text []byte) bool {
	if text[0] == 'n' || text[0] == 't' || text[0] == 'f' || c.schema {
		return false
	}
	switch c.kind {
	case any_, phrase:
		return !c.many
	case numeric:
		return len(text) >= 4 && !bytes.ContainsAny(text, ".eE-")
	case opaque:
		return !c.many && len(text) >= 7
	}
	return false
}

// schemaTypes are what "type" is in a description of a value.
var schemaTypes = []string{`"string"`, `"integer"`, `"number"`, `"object"`, `"array"`, `"boolean"`}

// isSchema reports whether the object here describes a value: {"type": "string", …}.
func (s *jsonRedaction) isSchema() bool {
	near := s.in[s.at:min(len(s.in), s.at+300)]
	_, rest, found := bytes.Cut(near, []byte(`"type"`))
	if !found {
		return bytes.HasPrefix(near, []byte(`{"$ref"`))
	}
	rest = bytes.TrimLeft(rest, " \t\r\n:[")
	for _, name := range schemaTypes {
		if bytes.HasPrefix(rest, []byte(name)) {
			return true
		}
	}
	return false
}

// references are the only members of an object that says where a secret is.
var references = [][]byte{[]byte(`"secretKeyRef"`), []byte(`"valueFrom"`), []byte(`"$ref"`)}

func isReferenceTo(raw []byte) bool {
	if raw[0] != '{' {
		return false
	}
	for _, reference := range references {
		if bytes.HasPrefix(bytes.TrimLeft(raw[1:min(len(raw), 40)], " \n\t"), reference) {
			return true
		}
	}
	return false
}

// pairNames and pairValues are the members of a name and its value.
var (
	pairNames = set(`name key header headername field fieldname variable var env param parameter attribute option property k path
		envvar variablename parameterkey setting`)
	pairValues = set(`value val v values data default old new before after previous current oldvalue newvalue stringvalue valuestring plaintext
		content secretvalue from to defaultvalue parametervalue`)
)

// halves are what a pair's other half is.
type halves struct {
	kind   kind
	many   bool
	values [4]half
	count  int
	// jwk: it is a JSON web key; private are the members that are secrets then.
	jwk      bool
	private  [8]half
	privates int
}

// jwkPrivate are the members of a JSON web key that are secrets.
var jwkPrivate = set("d p q dp dq qi k")

type half struct {
	place, to, from int
	container       bool
}

func (s *jsonRedaction) members(c meaning) (found bool) {
	if c.kind != plain && !c.schema && s.isSchema() {
		c = meaning{schema: true, kind: c.kind}
	}
	var pair halves
	s.at++
	for {
		s.space()
		if s.in[s.at] == '}' {
			s.at++
			s.closePair(&pair)
			return found
		}
		if s.in[s.at] == ',' {
			s.at++
			continue
		}
		nameAt := s.open()
		name := s.string()
		if clean := s.redactor.name(name); clean != name {
			s.replace(nameAt, s.at, clean)
		} else if nameAt == len(s.edits)-1 {
			s.edits = s.edits[:nameAt]
		}
		s.space()
		s.at++ // the colon
		s.space()
		if s.member(c, name, &pair) {
			found = true
		}
	}
}

// name returns a member's name without what may be a key: those who map by it have
// it there.
func (r *Redactor) name(name string) string {
	if len(name) < 20 {
		return name
	}
	return r.text(name, mostNested)
}

func (s *jsonRedaction) member(c meaning, name string, pair *halves) bool {
	inner := meaning{kind: c.kind, many: c.many}
	if c.schema {
		inner = meaning{}
		switch name {
		case "default", "example", "examples", "const", "value":
			inner.kind = c.kind
		}
	} else if kind := s.redactor.kindOf(name); kind != plain && kind >= inner.kind {
		last := name[len(name)-1]
		inner = meaning{kind: kind, many: last == 's' || last == 'S'}
		if (kind == lengthy || kind == opaque && lastLetters(name) == "token") && s.in[s.at] == '{' {
			inner = meaning{} // {"auth": {"type": "none"}}
		} else if kind == opaque && s.in[s.at] == '{' {
			inner.kind = any_
		}
	}
	if isReferenceTo(s.in[s.at:min(len(s.in), s.at+40)]) {
		inner = meaning{}
	}
	short := strings.ToLower(name)
	if len(name) <= 16 {
		short = strings.ReplaceAll(strings.ReplaceAll(short, "_", ""), "-", "")
	}
	if has(pairNames, short) && s.in[s.at] == '"' {
		at := s.at
		text := s.string()
		s.at = at
		if short == "path" {
			text = text[strings.LastIndexByte(text, '/')+1:]
		}
		if len(text) <= longestName && !strings.Contains(text, " ") {
			if kind := s.redactor.kindOf(text); kind != plain {
				pair.kind, pair.many = kind, text[len(text)-1]|0x20 == 's'
			}
		}
	}
	if inner.kind == plain && has(pairValues, short) && pair.count < len(pair.values) {
		place := s.open()
		h := half{place: place, from: s.at, container: s.in[s.at] == '{' || s.in[s.at] == '['}
		s.value(inner)
		s.edits[place].skip = len(s.edits)
		h.to = s.at
		pair.values[pair.count] = h
		pair.count++
		return false
	}
	if name == "kty" {
		pair.jwk = true
	}
	if inner.kind == plain && len(name) <= 2 && pair.privates < len(pair.private) && has(jwkPrivate, name) && s.in[s.at] == '"' {
		h := half{place: s.open(), from: s.at}
		s.value(inner)
		s.edits[h.place].skip = len(s.edits)
		h.to = s.at
		pair.private[pair.privates] = h
		pair.privates++
		return false
	}
	return s.value(inner)
}

// closePair replaces the values of a name that is a secret's.
func (s *jsonRedaction) closePair(pair *halves) {
	for _, h := range pair.private[:pair.privates] {
		if pair.jwk && h.to-h.from >= 16 {
			s.replace(h.place, h.to, Redacted)
		}
	}
	if pair.kind == plain {
		if pair.count == 1 {
			s.close(pair.values[0].place, true)
		}
		return
	}
	for _, h := range pair.values[:pair.count] {
		raw := s.in[h.from:h.to]
		switch {
		case h.container:
			if h.to-h.from <= 2 || isReferenceTo(raw) {
				continue
			}
		case raw[0] == '"':
			var text string
			if err := json.Unmarshal(raw, &text); err != nil || !isSecret(pair.kind, text) {
				continue
			}
		default:
			if !(meaning{kind: pair.kind, many: pair.many}).secretNumber(raw) {
				continue
			}
		}
		s.replace(h.place, h.to, Redacted)
	}
}

// elements passes an array. One that is a secret is replaced as a whole.
func (s *jsonRedaction) elements(c meaning) (found bool) {
	whole := s.open()
	s.at++
	var before kind // what the text before says of this one
	var option bool // and whether it is an option
	userOption := false
	var command string // the first element, if it is a command with short options
	second, count := -1, 0
	var secondFrom, secondTo int
	var pairKind kind
	for {
		s.space()
		switch s.in[s.at] {
		case ']':
			s.at++
			if found && c.kind != plain {
				s.edits[whole].skip = len(s.edits)
				s.replace(whole, s.at, Redacted)
			} else if count == 2 && c.pairs && second >= 0 && pairKind != plain {
				var text string
				if json.Unmarshal(s.in[secondFrom:secondTo], &text) == nil && isSecret(pairKind, text) {
					s.replace(second, secondTo, Redacted)
				}
			}
			s.close(whole, true)
			return found
		case ',':
			s.at++
			continue
		}
		inner := meaning{kind: c.kind, many: c.many, pairs: true}
		if c.schema {
			inner = meaning{}
		}
		place := s.open()
		start, isText := s.at, s.in[s.at] == '"'
		if count == 1 && isText {
			second, secondFrom = place, start
		}
		if isText && inner.kind == plain && before != plain && s.isValueOf(before, option) {
			s.string()
			s.replace(place, s.at, Redacted)
			before = plain
		} else {
			if s.value(inner) {
				found = true
			}
			before = plain
			if isText && s.at-start <= longestName {
				before, option = s.nameOf(s.in[start+1 : s.at-1])
			}
			if count == 0 {
				pairKind = before
				if isText {
					command = commandOf(s.in[start+1 : s.at-1])
				}
			} else if isText && command != "" && s.in[start+1] == '-' {
				if k := s.shortOption(command, place, start); k != plain {
					before, option = k, true
				}
			} else if isText && userOption {
				s.userAndPassword(place, start)
			}
			userOption = isText && command == "curl" && (string(s.in[start:s.at]) == `"-u"` || string(s.in[start:s.at]) == `"--user"`)
		}
		s.close(place, place != second)
		if found && c.kind != plain { // the array will be replaced as a whole
			s.edits = s.edits[:whole+1]
		}
		if count == 1 {
			secondTo = s.at
		}
		count++
	}
}

// commandOf is the command that a list of arguments begins with, if its short options
// take passwords.
func commandOf(raw []byte) string {
	name := string(raw[max(bytes.LastIndexByte(raw, '/')+1, 0):])
	switch name {
	case "sshpass", "redis-cli", "curl", "mysql", "mysqldump", "mysqladmin", "mariadb":
		return name
	}
	return ""
}

// shortOption looks at one of a command that is known: what it says of the next
// element, or its own value.
func (s *jsonRedaction) shortOption(command string, place, start int) kind {
	raw := s.in[start+1 : s.at-1]
	switch {
	case command == "sshpass" && string(raw) == "-p", command == "redis-cli" && string(raw) == "-a":
		return any_
	case strings.HasPrefix(command, "m") && len(raw) > 3 && raw[1] == 'p' && isOpaque(string(raw[2:])):
		s.edits = s.edits[:place+1]
		s.replace(place, s.at, "-p"+Redacted)
	}
	return plain
}

// userAndPassword takes the password out of user:password.
func (s *jsonRedaction) userAndPassword(place, start int) {
	var text string
	if json.Unmarshal(s.in[start:s.at], &text) != nil {
		return
	}
	if user, password, found := strings.Cut(text, ":"); found && isSecret(any_, password) {
		s.edits = append(s.edits[:place], edit{from: start})
		s.replace(place, s.at, user+":"+Redacted)
	}
}

// nameOf is what an element says of the next one: --password, or Authorization.
func (s *jsonRedaction) nameOf(raw []byte) (k kind, option bool) {
	if len(raw) < 3 || bytes.ContainsAny(raw, " =") {
		return plain, false
	}
	option = raw[0] == '-'
	return s.redactor.kindOf(string(raw)), option
}

// isValueOf reports whether the text here is the value of the option, or of the
// header, before it.
func (s *jsonRedaction) isValueOf(kind kind, option bool) bool {
	at := s.at
	text := s.string()
	s.at = at
	if option {
		return isSecret(kind, text) && text[0] != '-'
	}
	return isSecret(kind, text) && len(text) >= 12 && isOpaque(text) && !strings.ContainsAny(text, "=/")
}

// string passes a string and returns what it stands for.
func (s *jsonRedaction) string() string {
	start := s.at
	s.at++
	length := bytes.IndexByte(s.in[s.at:], '"') // it is valid
	escaped := bytes.IndexByte(s.in[s.at:s.at+length], '\\') >= 0
	if !escaped {
		s.at += length
	}
	for ; s.in[s.at] != '"'; s.at++ {
		if s.in[s.at] == '\\' {
			s.at++
		}
	}
	s.at++
	raw := s.in[start:s.at]
	if !escaped {
		return string(raw[1 : len(raw)-1])
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil { // it is valid
		return string(raw)
	}
	return text
}

func (s *jsonRedaction) text(c meaning) bool {
	place := s.open()
	text := s.string()
	if c.kind != plain && isSecret(c.kind, text) {
		s.replace(place, s.at, Redacted)
		return true
	}
	if clean := s.redactor.text(text, s.depth); clean != text {
		s.replace(place, s.at, clean)
	} else {
		s.edits = s.edits[:place]
	}
	return false
}

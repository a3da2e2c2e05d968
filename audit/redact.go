package audit

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-df90f812/agentstore/repo"
)

// Redacted stands where a secret was.
const Redacted = "[REDACTED]"

// RedactorOptions extend a Redactor. The zero value adds nothing.
type RedactorOptions struct {
	// Keys are more names of members whose values are secrets. Case and
	// separators do not matter: apiKey, API-KEY and api_key are the same.
	Keys []string
	// Patterns are more texts that are secrets, wherever they stand.
	Patterns []*regexp.Regexp
}

// Redactor takes secrets out of entries: by the names of members, and by what
// texts look like. It is safe for concurrent use.
type Redactor struct {
	keys     map[string]struct{}
	patterns []pattern
}

// NewRedactor returns a redactor that knows the usual secrets and those of the
// options.
func NewRedactor(options RedactorOptions) *Redactor {
	r := &Redactor{keys: map[string]struct{}{}, patterns: knownPatterns}
	for _, key := range slices.Concat(secretKeys, options.Keys) {
		r.keys[normalKey(key)] = struct{}{}
	}
	r.patterns = slices.Clone(r.patterns)
	for _, p := range options.Patterns {
		r.patterns = append(r.patterns, pattern{expression: p, replacement: Redacted})
	}
	return r
}

// Entry returns the entry without secrets. The argument is left alone.
func (r *Redactor) Entry(e repo.AuditEntry) repo.AuditEntry {
	e.Actor, e.User, e.Project = r.Text(e.Actor), r.Text(e.User), r.Text(e.Project)
	e.Details = r.JSON(e.Details)
	return e
}

// Text returns the text without secrets.
func (r *Redactor) Text(text string) string {
	if len(text) < shortestSecret {
		return text
	}
	has := lettersOf(text)
	for i := range r.patterns {
		// A replacement brings letters along, but no secret.
		text = r.patterns[i].redact(text, has)
	}
	return text
}

// JSON returns the document without secrets. What is not a secret stays byte for
// byte as it is; so does what is not JSON, which no store accepts.
func (r *Redactor) JSON(document json.RawMessage) json.RawMessage {
	if len(document) <= len("{}") || !json.Valid(document) {
		return document
	}
	s := jsonRedaction{redactor: r, in: document}
	s.value(false)
	if s.out == nil { // nothing was replaced
		return document
	}
	return append(s.out, s.in[s.copied:]...)
}

// secretKey reports whether the value of a member with this name is a secret.
func (r *Redactor) secretKey(name string) bool {
	normal := normalKey(name)
	if _, known := r.keys[normal]; known {
		return true
	}
	for _, suffix := range secretSuffixes {
		if strings.HasSuffix(normal, suffix) {
			return true
		}
	}
	return false
}

// normalKey drops case and separators.
func normalKey(key string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c > 127:
			return c
		case 'A' <= c && c <= 'Z':
			return c - 'A' + 'a'
		}
		return -1
	}, key)
}

// jsonRedaction walks valid JSON and copies it, from the first replacement on.
type jsonRedaction struct {
	redactor *Redactor
	in       []byte
	at       int
	out      []byte
	copied   int // how much of in is in out
}

func (s *jsonRedaction) space() {
	for s.at < len(s.in) && (s.in[s.at] == ' ' || s.in[s.at] == '\n' || s.in[s.at] == '\t' || s.in[s.at] == '\r') {
		s.at++
	}
}

// replace puts text in the place of what stands from start to at.
func (s *jsonRedaction) replace(start int, text string) {
	if s.out == nil {
		s.out = make([]byte, 0, len(s.in)+len(text))
	}
	s.out = append(s.out, s.in[s.copied:start]...)
	s.out = appendJSON(s.out, text)
	s.copied = s.at
}

func appendJSON(dst []byte, text string) []byte {
	var quoted bytes.Buffer
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil { // a string always encodes
		return append(dst, `"`+Redacted+`"`...)
	}
	return append(dst, bytes.TrimRight(quoted.Bytes(), "\n")...)
}

// value passes one value. A secret one is replaced whole, unless it says nothing:
// null, true, false and the empty text stay.
func (s *jsonRedaction) value(secret bool) {
	s.space()
	start := s.at
	switch s.in[s.at] {
	case '{':
		s.members(secret)
	case '[':
		s.elements(secret)
	case '"':
		s.text(secret)
		return
	default:
		for s.at < len(s.in) && !strings.ContainsRune(",]} \t\r\n", rune(s.in[s.at])) {
			s.at++
		}
		if c := s.in[start]; secret && c != 'n' && c != 't' && c != 'f' {
			s.replace(start, Redacted)
		}
	}
}

func (s *jsonRedaction) members(secret bool) {
	s.at++
	for {
		s.space()
		if s.in[s.at] == '}' {
			s.at++
			return
		}
		if s.in[s.at] == ',' {
			s.at++
			continue
		}
		name := s.string()
		s.space()
		s.at++ // the colon
		s.value(secret || s.redactor.secretKey(name))
	}
}

func (s *jsonRedaction) elements(secret bool) {
	s.at++
	for {
		s.space()
		switch s.in[s.at] {
		case ']':
			s.at++
			return
		case ',':
			s.at++
		default:
			s.value(secret)
		}
	}
}

// string passes a string and returns what it stands for.
func (s *jsonRedaction) string() string {
	start := s.at
	escaped := false
	for s.at++; s.in[s.at] != '"'; s.at++ {
		if s.in[s.at] == '\\' {
			escaped = true
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

func (s *jsonRedaction) text(secret bool) {
	start := s.at
	text := s.string()
	if secret {
		if text != "" && text != Redacted {
			s.replace(start, Redacted)
		}
		return
	}
	if clean := s.redactor.Text(text); clean != text {
		s.replace(start, clean)
	}
}

package jsonvalue

import (
	"encoding/json"
	"strings"
)

// Invalid is the reason for a violation of JSON's grammar.
const Invalid = "is not valid JSON"

// Scanner reads the tokens of a JSON text that is valid, without altering or copying them.
type Scanner struct {
	// Pos is the position in the text. A caller may change it.
	Pos  int
	text []byte
}

// NewScanner returns a scanner of a valid text, which it does not change.
func NewScanner(text []byte) Scanner { return Scanner{text: text} }

// Peek skips white space and returns the next byte without consuming it, or 0 at the end.
func (s *Scanner) Peek() byte {
	for ; s.Pos < len(s.text); s.Pos++ {
		if c := s.text[s.Pos]; c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c
		}
	}
	return 0
}

// Colon consumes the colon between a member's name and its value.
func (s *Scanner) Colon() {
	s.Peek()
	s.Pos++
}

// Next moves to the next member or element, and reports whether there is one. end
// closes the object or array, whose opening bracket was consumed before; first is
// true for the first call.
func (s *Scanner) Next(end byte, first bool) bool {
	c := s.Peek()
	if c == end || !first {
		s.Pos++
	}
	return c != end
}

// plainBytes returns how many bytes of a string stand for themselves.
func plainBytes(chunk []byte) int {
	for i, c := range chunk {
		if special[c] {
			return i
		}
	}
	return len(chunk)
}

// special has the bytes that do not stand for themselves in a string.
var special = func() (table [256]bool) {
	for c := range 0x20 {
		table[c] = true
	}
	table['"'], table['\\'] = true, true
	return table
}()

// Lenient returns the next string. Like encoding/json it replaces lone surrogates.
func (s *Scanner) Lenient() string {
	begin := s.Pos
	raw, escaped := s.raw()
	if !escaped {
		return string(raw)
	}
	var text string
	_ = json.Unmarshal(s.text[begin:s.Pos], &text) // of a valid text
	return text
}

// raw consumes the string at Pos. It returns the text between the quotes, and whether
// that has escapes.
func (s *Scanner) raw() (text []byte, escaped bool) {
	s.Pos++
	begin := s.Pos
	for {
		s.Pos += plainBytes(s.text[s.Pos:])
		if s.text[s.Pos] == '"' {
			s.Pos++
			return s.text[begin : s.Pos-1], escaped
		}
		escaped = true
		s.Pos += len(`\"`)
	}
}

// skip consumes the value at Pos.
func (s *Scanner) skip() {
	for depth := 0; ; {
		switch s.Peek() {
		case '"':
			s.raw()
		case '{', '[':
			depth++
			s.Pos++
		case '}', ']':
			depth--
			s.Pos++
		case ',', ':':
			s.Pos++
		default:
			for s.Pos < len(s.text) && strings.IndexByte(",:]} \t\n\r", s.text[s.Pos]) < 0 {
				s.Pos++
			}
		}
		if depth == 0 {
			return
		}
	}
}

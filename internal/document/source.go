package document

import (
	"errors"
	"io"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// source reads JSON tokens from a stream. Unlike encoding/json it never alters
// a string that is not valid Unicode, keeps metadata as it is written, and
// bounds each value before it is in memory.
type source struct {
	r        io.Reader
	buffer   []byte // what was read: from pos to end is still to come
	pos, end int
	err      error  // r's own, once it gave one
	scratch  []byte // the last string
	spaced   bool   // white space was skipped
}

const sourceSize = 64 << 10

func newSource(r io.Reader) *source {
	return &source{r: r, buffer: make([]byte, sourceSize)}
}

// fill reads more. It is called when all that was read is used up.
func (s *source) fill() *fault {
	s.pos, s.end = 0, 0
	for tries := 0; s.err == nil && tries < 100; tries++ {
		var n int
		n, s.err = s.r.Read(s.buffer)
		if n > 0 {
			s.end = n
			return nil
		}
	}
	switch {
	case s.err == nil:
		s.err = io.ErrNoProgress
	case errors.Is(s.err, io.EOF):
		// Never passed on as io.EOF, which means a complete document.
		return &fault{Reason: "is cut off", Err: io.ErrUnexpectedEOF}
	}
	return &fault{Reason: "cannot be read", Err: s.err}
}

// peek returns the next byte and leaves it.
func (s *source) peek() (byte, *fault) {
	if s.pos == s.end {
		if f := s.fill(); f != nil {
			return 0, f
		}
	}
	return s.buffer[s.pos], nil
}

// take returns the next byte and removes it.
func (s *source) take() (byte, *fault) {
	c, f := s.peek()
	s.pos++
	return c, f
}

// peekToken returns the next byte that is not white space and leaves it.
func (s *source) peekToken() (byte, *fault) {
	for {
		c, f := s.peek()
		if f != nil || !isSpace(c) {
			return c, f
		}
		s.spaced = true
		s.pos++
	}
}

// expect removes the token c.
func (s *source) expect(c byte) *fault {
	got, f := s.peekToken()
	if f != nil {
		return f
	}
	if got != c {
		return &fault{Reason: "is not valid JSON"}
	}
	s.pos++
	return nil
}

// atEnd checks that nothing but white space follows.
func (s *source) atEnd() *fault {
	_, f := s.peekToken()
	switch {
	case f == nil:
		return &fault{Reason: "is followed by something else"}
	case s.err == io.EOF: //nolint:errorlint // a wrapped one is not a clean end
		return nil
	}
	return f
}

// text reads a string of at most limit bytes. The result is valid until the
// next one. That it is valid UTF-8 is left to the check of the value: nothing
// is replaced here.
func (s *source) text(limit int) ([]byte, *fault) {
	c, f := s.peekToken()
	if f != nil {
		return nil, f
	}
	if c != '"' {
		return nil, &fault{Reason: "is not a string"}
	}
	s.pos++
	text := s.scratch[:0]
	for {
		if s.pos == s.end {
			if f := s.fill(); f != nil {
				return nil, f
			}
		}
		chunk := s.buffer[s.pos:s.end]
		plain := 0
		for plain < len(chunk) && !special[chunk[plain]] {
			plain++
		}
		if len(text)+plain > limit {
			return nil, tooLong(limit)
		}
		text = append(text, chunk[:plain]...)
		s.pos += plain
		if plain == len(chunk) {
			continue
		}
		s.pos++
		switch chunk[plain] {
		case '"':
			s.scratch = text
			return text, nil
		case '\\':
			r, f := s.escape()
			if f != nil {
				return nil, f
			}
			if text = utf8.AppendRune(text, r); len(text) > limit {
				return nil, tooLong(limit)
			}
		default:
			return nil, &fault{Reason: "holds a control character that is not escaped"}
		}
	}
}

// special are the bytes that end a run of a string's plain ones.
var special = func() (table [256]bool) {
	for c := range 0x20 {
		table[c] = true
	}
	table['"'], table['\\'] = true, true
	return table
}()

// escape reads what follows a backslash.
func (s *source) escape() (rune, *fault) {
	c, f := s.take()
	if f != nil {
		return 0, f
	}
	switch c {
	case '"', '\\', '/':
		return rune(c), nil
	case 'b':
		return '\b', nil
	case 'f':
		return '\f', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case 'u':
	default:
		return 0, &fault{Reason: "is not valid JSON"}
	}
	r, f := s.unit()
	if f != nil || !utf16.IsSurrogate(r) {
		return r, f
	}
	for _, want := range []byte(`\u`) {
		c, f := s.take()
		if f != nil {
			return 0, f
		}
		if c != want {
			return 0, &fault{Reason: halfPair}
		}
	}
	second, f := s.unit()
	if f != nil {
		return 0, f
	}
	if r = utf16.DecodeRune(r, second); r == utf8.RuneError {
		return 0, &fault{Reason: halfPair}
	}
	return r, nil
}

const halfPair = "holds the escape of half a surrogate pair"

// unit reads the four digits of a \u escape.
func (s *source) unit() (rune, *fault) {
	var unit rune
	for range 4 {
		c, f := s.take()
		if f != nil {
			return 0, f
		}
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, &fault{Reason: "is not valid JSON"}
		}
		unit = unit<<4 | rune(c)
	}
	return unit, nil
}

// integer reads a whole number of 64 bits. It has one spelling: no fraction, no
// exponent, no -0, because the checksum is taken over numbers as written.
func (s *source) integer() (int64, *fault) {
	c, f := s.peekToken()
	if f != nil {
		return 0, f
	}
	if c != '-' && (c < '0' || c > '9') {
		return 0, &fault{Reason: "is not a number"}
	}
	var literal [24]byte
	length := 0
	for isNumeric(c) {
		if length == len(literal) {
			return 0, &fault{Reason: "is not a whole number of 64 bits"}
		}
		literal[length] = c
		length++
		s.pos++
		if c, f = s.peek(); f != nil {
			return 0, f
		}
	}
	value, err := strconv.ParseInt(string(literal[:length]), 10, 64)
	var again [24]byte
	if err != nil || string(strconv.AppendInt(again[:0], value, 10)) != string(literal[:length]) {
		return 0, &fault{Reason: "is not a whole number of 64 bits"}
	}
	return value, nil
}

// object reads a JSON object of at most limit bytes as it is written, into a
// slice of its own. What is within its braces is left to the check of the
// value. With around, white space before and behind it is part of it.
func (s *source) object(limit int, around bool) ([]byte, *fault) {
	raw := s.scratch[:0]
	depth, inString, escaped := 0, false, false
	for begun := false; ; {
		if s.pos == s.end {
			if f := s.fill(); f != nil {
				return nil, f
			}
		}
		start := s.pos
		done := false
	chunk:
		for s.pos < s.end {
			c := s.buffer[s.pos]
			switch {
			case escaped:
				escaped = false
			case inString:
				inString, escaped = c != '"', c == '\\'
			case depth == 0 && isSpace(c):
				if !around && !begun {
					s.spaced = true
					start = s.pos + 1
				}
			case depth == 0 && begun: // what follows the object
				done = true
				break chunk
			case depth == 0 && c != '{':
				return nil, &fault{Reason: "is not an object"}
			case c == '"':
				inString = true
			case c == '{' || c == '[':
				depth++
				begun = true
			case c == '}' || c == ']':
				depth--
				done = depth == 0 && !around
			}
			s.pos++
			if done {
				break
			}
		}
		if len(raw)+s.pos-start > limit {
			return nil, tooLong(limit)
		}
		raw = append(raw, s.buffer[start:s.pos]...)
		if done {
			s.scratch = raw
			return append(make([]byte, 0, len(raw)), raw...), nil
		}
	}
}

// trim lets go of memory that one large value took.
func (s *source) trim() { s.scratch = reuse(s.scratch) }

func tooLong(limit int) *fault {
	return &fault{Reason: "has more than " + strconv.Itoa(limit) + " bytes"}
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func isNumeric(c byte) bool {
	return c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'
}

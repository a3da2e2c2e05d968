package jsonvalue

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Scanner reads the tokens of a JSON text from a reader or from memory. Unlike
// encoding/json it never alters a string that is not valid Unicode, can return an
// object as it is written, and bounds each value of a reader before it is in
// memory.
//
// After the first fault its methods do nothing and their results have no meaning,
// so a caller may make several calls and then check Fault.
type Scanner struct {
	// Fault is the first fault, or nil.
	Fault *Fault
	// Pos is the position in the text of NewScanner. A caller may set it back.
	Pos int
	// Spaced reports that Peek passed white space.
	Spaced bool

	buffer  []byte // what was read, or the whole text
	reader  io.Reader
	err     error  // the reader's error
	scratch []byte // a token that is not contiguous in the buffer
	// While Object reads: where the object begins in the buffer, and its maximum length.
	keeps       bool
	kept, limit int
}

// Fault says what is wrong with a text, as a phrase that contains nothing of it.
type Fault struct {
	Reason string
	// Err is the reader's error, if that is the cause.
	Err error
}

func (f *Fault) Error() string { return f.Reason }

// keepCapacity is the largest scratch buffer that is kept for the next token.
const keepCapacity = 1 << 20

// Invalid is the reason for a violation of JSON's grammar.
const Invalid = "is not valid JSON"

// NewScanner returns a scanner of text, which it does not change.
func NewScanner(text []byte) Scanner { return Scanner{buffer: text, err: io.EOF} }

// NewReaderScanner returns a scanner of what r returns. It reads at most size bytes
// at once.
func NewReaderScanner(r io.Reader, size int) Scanner {
	return Scanner{reader: r, buffer: make([]byte, 0, size)}
}

// Fail ends the scanner with a fault, unless it has one.
func (s *Scanner) Fail(reason string) { s.fail(reason, nil) }

func (s *Scanner) fail(reason string, cause error) {
	if s.Fault == nil {
		s.Fault = &Fault{reason, cause}
		s.buffer, s.Pos, s.keeps = nil, 0, false
	}
}

// more reports whether there is a byte at Pos. It reads more if the buffer is used
// up.
func (s *Scanner) more() bool { return s.Pos < len(s.buffer) || s.fill() }

func (s *Scanner) fill() bool {
	if s.Fault != nil {
		return false
	}
	if s.keeps {
		s.scratch = append(s.scratch, s.buffer[s.kept:]...)
		if s.kept = 0; len(s.scratch) > s.limit {
			s.tooLong(s.limit)
			return false
		}
	}
	for tries := 0; s.err == nil; tries++ {
		var n int
		if n, s.err = s.reader.Read(s.buffer[:cap(s.buffer)]); n > 0 {
			s.buffer, s.Pos = s.buffer[:n], 0
			return true
		}
		if s.err == nil && tries == 100 {
			s.err = io.ErrNoProgress
		}
	}
	if errors.Is(s.err, io.EOF) {
		// Not io.EOF, which would mean a complete text.
		s.fail("is cut off", io.ErrUnexpectedEOF)
	} else {
		s.fail("cannot be read", s.err)
	}
	return false
}

// take consumes and returns the next byte.
func (s *Scanner) take() byte {
	if !s.more() {
		return 0
	}
	s.Pos++
	return s.buffer[s.Pos-1]
}

// Peek skips white space and returns the next byte without consuming it.
func (s *Scanner) Peek() byte {
	for s.more() {
		c := s.buffer[s.Pos]
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c
		}
		s.Spaced = true
		s.Pos++
	}
	return 0
}

// Expect consumes the token c; reason is the fault if it is missing.
func (s *Scanner) Expect(c byte, reason string) {
	if s.Peek() != c {
		s.Fail(reason)
		return
	}
	s.Pos++
}

// Colon consumes the colon between a member's name and its value.
func (s *Scanner) Colon() { s.Expect(':', Invalid) }

// Next moves to the next member or element, and reports whether there is one. end
// closes the object or array, whose opening bracket was consumed before; first is
// true for the first call.
func (s *Scanner) Next(end byte, first bool) bool {
	switch c := s.Peek(); {
	case c == end:
		s.Pos++
		return false
	case first:
	case c != ',':
		s.Fail(Invalid)
	default:
		s.Pos++
	}
	return s.Fault == nil
}

// End checks that nothing but white space follows.
func (s *Scanner) End() {
	if s.Fault != nil {
		return
	}
	s.Peek()
	if s.Fault == nil {
		s.Fail("is followed by something else")
	} else if s.err == io.EOF { //nolint:errorlint // a wrapped one is not a clean end
		s.Fault = nil
	}
}

// Text returns the next string, of at most limit bytes, without escapes. It may be
// a part of the buffer and is valid until the next call; a scanner of NewScanner's
// never overwrites it. Text does not check for valid UTF-8, and replaces nothing.
func (s *Scanner) Text(limit int) []byte {
	s.Expect('"', "is not a string")
	text := s.emptied()
	for s.more() {
		chunk := s.buffer[s.Pos:]
		plain := plainBytes(chunk)
		if len(text)+plain > limit {
			s.tooLong(limit)
			return nil
		}
		s.Pos += plain
		if plain == len(chunk) {
			text = append(text, chunk...)
			continue
		}
		s.Pos++
		switch chunk[plain] {
		case '"':
			if len(text) == 0 {
				return chunk[:plain:plain]
			}
			s.scratch = append(text, chunk[:plain]...)
			return s.scratch
		case '\\':
			text = append(text, chunk[:plain]...) // before escape, which may refill the buffer
			if text = utf8.AppendRune(text, s.escape()); len(text) > limit {
				s.tooLong(limit)
			}
		default:
			s.Fail("holds a control character that is not escaped")
		}
	}
	return nil
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

// shortEscapes may follow a backslash, and escapedBytes are what they stand for.
const shortEscapes, escapedBytes = `"\/bfnrt`, "\"\\/\b\f\n\r\t"

// escape reads the part of an escape after the backslash.
func (s *Scanner) escape() rune {
	c := s.take()
	if i := strings.IndexByte(shortEscapes, c); i >= 0 {
		return rune(escapedBytes[i])
	}
	if c != 'u' {
		s.Fail(Invalid)
		return 0
	}
	r := s.unit()
	if !utf16.IsSurrogate(r) {
		return r
	}
	if s.take() == '\\' && s.take() == 'u' {
		if r = utf16.DecodeRune(r, s.unit()); r != utf8.RuneError {
			return r
		}
	}
	s.Fail("holds the escape of half a surrogate pair")
	return 0
}

// unit reads the four digits of a \u escape.
func (s *Scanner) unit() rune {
	var digits [4]byte
	for i := range digits {
		digits[i] = s.take()
	}
	var unit [2]byte
	if _, err := hex.Decode(unit[:], digits[:]); err != nil {
		s.Fail(Invalid)
	}
	return rune(unit[0])<<8 | rune(unit[1])
}

// Integer returns the next number, which must be an integer of 64 bits in its only
// spelling: no fraction, no exponent, no -0.
func (s *Scanner) Integer() int64 {
	if c := s.Peek(); c != '-' && (c < '0' || c > '9') {
		s.Fail("is not a number")
	}
	var literal, again [24]byte
	length := 0
	for s.more() && length < len(literal) && strings.IndexByte("0123456789-+.eE", s.buffer[s.Pos]) >= 0 {
		literal[length] = s.buffer[s.Pos]
		length++
		s.Pos++
	}
	value, err := strconv.ParseInt(string(literal[:length]), 10, 64)
	if err != nil || string(strconv.AppendInt(again[:0], value, 10)) != string(literal[:length]) {
		s.Fail("is not a whole number of 64 bits")
	}
	return value
}

// Object returns a copy of the next object, of at most limit bytes, as it is
// written. It does not check the text between the braces: see CheckObject. If
// around is true, white space before and after the object is part of it.
func (s *Scanner) Object(limit int, around bool) []byte { return s.written(limit, around, true) }

// Value is Object for a value of any type. It may return text that is not JSON: see
// Check.
func (s *Scanner) Value(limit int, around bool) []byte { return s.written(limit, around, false) }

func (s *Scanner) written(limit int, around, object bool) []byte {
	if !around {
		s.Peek()
	}
	s.scratch = s.emptied()
	s.keeps, s.kept, s.limit = s.Fault == nil, s.Pos, limit
	switch c := s.Peek(); {
	case c == '{' || c == '[' && !object:
		s.skip()
	case object:
		s.Fail("is not an object")
	case c == '"':
		s.Pos++
		s.skipString()
	default:
		s.skipLiteral()
	}
	if around {
		s.Peek()
	}
	if s.Fault != nil {
		return nil
	}
	s.keeps = false
	last := s.buffer[s.kept:s.Pos]
	if len(s.scratch)+len(last) > limit {
		s.tooLong(limit)
		return nil
	}
	return append(append(make([]byte, 0, len(s.scratch)+len(last)), s.scratch...), last...)
}

// skip skips an object or an array. It looks only at brackets and strings.
func (s *Scanner) skip() {
	for depth := 0; s.more(); {
		c := s.buffer[s.Pos]
		s.Pos++
		switch c {
		case '"':
			s.skipString()
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return
			}
		}
	}
}

// Lenient returns the next string of valid JSON in memory. Like encoding/json it
// replaces lone surrogates.
func (s *Scanner) Lenient() string {
	begin := s.Pos
	raw, escaped := s.raw()
	if !escaped {
		return string(raw)
	}
	var text string
	if err := json.Unmarshal(s.buffer[begin:s.Pos], &text); err != nil {
		s.Fail(Invalid)
	}
	return text
}

// raw consumes the string at Pos of valid JSON in memory. It returns the text
// between the quotes, and whether that has escapes.
func (s *Scanner) raw() (text []byte, escaped bool) {
	s.Pos++
	text = s.buffer[s.Pos:]
	if plain := plainBytes(text); text[plain] == '"' { // the common case
		s.Pos += plain + 1
		return text[:plain], false
	}
	begin := s.Pos
	s.skipString()
	return s.buffer[begin : s.Pos-1], true
}

// skipLiteral skips a number, true, false or null.
func (s *Scanner) skipLiteral() {
	for s.more() && strings.IndexByte(" \t\r\n,:]}", s.buffer[s.Pos]) < 0 {
		s.Pos++
	}
}

// skipString skips the rest of a string.
func (s *Scanner) skipString() {
	for s.more() {
		s.Pos += plainBytes(s.buffer[s.Pos:])
		switch s.take() {
		case '"':
			return
		case '\\':
			s.take()
		}
	}
}

// emptied returns an empty scratch buffer for the next token. It reuses the last
// one, unless a large token has made it too large, or the text is in memory, where
// tokens stay valid.
func (s *Scanner) emptied() []byte {
	if s.reader == nil || cap(s.scratch) > keepCapacity {
		s.scratch = nil
	}
	return s.scratch[:0]
}

func (s *Scanner) tooLong(limit int) {
	s.Fail("has more than " + strconv.Itoa(limit) + " bytes")
}

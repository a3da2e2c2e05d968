package jsonvalue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Equal reports whether a and b, both checked, are the same JSON value. The order
// of members, white space and escapes do not matter; numbers are compared as
// literals, so that 1.0 and 1 differ.
func Equal(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	canonicalA, errA := AppendCanonical(nil, a)
	canonicalB, errB := AppendCanonical(nil, b)
	return errA == nil && errB == nil && bytes.Equal(canonicalA, canonicalB)
}

// AppendCanonical appends the canonical form of raw to dst: no white space, members
// in ascending byte order of their names, numbers as they are written, and strings as
// encoding/json escapes them.
func AppendCanonical(dst, raw []byte) ([]byte, error) {
	if string(raw) == "{}" {
		return append(dst, raw...), nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return dst, fmt.Errorf("canonical form: %w", err)
	}
	out := bytes.NewBuffer(dst)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// AppendString appends s as a JSON string. It escapes only the quotation mark, the
// backslash and the control characters: \b \f \n \r \t by their letter, the others
// as \u00 and two lower-case digits (the rule of RFC 8785, 3.2.2.2).
func AppendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !special[c] {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		if i := strings.IndexByte(escapedBytes, c); i >= 0 {
			dst = append(dst, '\\', shortEscapes[i])
		} else {
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		}
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// shortEscapes may follow a backslash, and escapedBytes are what they stand for.
const shortEscapes, escapedBytes = `"\bfnrt`, "\"\\\b\f\n\r\t"

// LenString returns how many bytes AppendString appends.
func LenString[T string | []byte](s T) int {
	n := len(s) + len(`""`)
	for i := range len(s) {
		switch c := s[i]; {
		case !special[c]:
		case strings.IndexByte(escapedBytes, c) >= 0:
			n += len(`\n`) - 1
		default:
			n += len(`\u0000`) - 1
		}
	}
	return n
}

// Package jsonvalue checks, compares and scans JSON. Check and CheckObject check
// that a value can be stored and read back unchanged; AppendCanonical writes it in
// the canonical form in which values are compared and hashed; a Scanner reads
// tokens of a valid text. Everything else follows encoding/json: which
// text is valid, and what a string means to other readers.
package jsonvalue

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// CheckObject returns an error if raw cannot be stored and read back unchanged. The
// error is a phrase that contains nothing of raw. Besides invalid JSON it refuses
// duplicate member names (readers differ in which one they keep), the escape \u0000
// and lone surrogates (PostgreSQL cannot store the text they stand for), and
// nesting deeper than maxDepth.
func CheckObject(raw []byte, maxDepth int) error {
	if string(raw) == "{}" {
		return nil
	}
	return check(raw, maxDepth, true)
}

// Check is CheckObject for a value of any type.
func Check(raw []byte, maxDepth int) error { return check(raw, maxDepth, false) }

func check(raw []byte, maxDepth int, object bool) error {
	s := NewScanner(raw)
	switch {
	case !utf8.Valid(raw):
		return errors.New("is not valid UTF-8")
	case !json.Valid(raw):
		return errors.New(Invalid)
	case object && s.Peek() != '{':
		return errors.New("is not a JSON object")
	}
	return s.check(maxDepth)
}

// manyNames is the number of names in an object above which they are looked up in a
// map.
const manyNames = 16

// check checks valid JSON in memory. It looks only at brackets and strings, because
// it runs for every message with metadata.
func (s *Scanner) check(maxDepth int) error {
	type level struct {
		first int                 // its first name in names
		index map[string]struct{} // all of its names, once they are many
	}
	levels, names := make([]level, 0, 8), make([][]byte, 0, manyNames)
	raw := s.text
	for i := s.Pos; i < len(raw); i++ {
		switch raw[i] {
		case '{', '[':
			if len(levels) == maxDepth {
				return errors.New("is nested deeper than " + strconv.Itoa(maxDepth) + " levels")
			}
			levels = append(levels, level{first: len(names)})
		case '}', ']':
			names = names[:levels[len(levels)-1].first]
			levels = levels[:len(levels)-1]
		case '"':
			s.Pos = i
			text, escaped := s.raw()
			if escaped {
				if err := checkEscapes(text); err != nil {
					return err
				}
				s.Pos = i
				text = []byte(s.Lenient())
			}
			// In valid JSON a colon follows only a name.
			if i = s.Pos - 1; len(levels) == 0 || s.Peek() != ':' {
				continue
			}
			top := &levels[len(levels)-1]
			siblings, twice := names[top.first:], false
			if len(siblings) < manyNames {
				for _, name := range siblings {
					twice = twice || bytes.Equal(name, text)
				}
				names = append(names, text)
			} else {
				if top.index == nil {
					top.index = make(map[string]struct{}, 2*manyNames)
					for _, name := range siblings {
						top.index[string(name)] = struct{}{}
					}
				}
				_, twice = top.index[string(text)]
				top.index[string(text)] = struct{}{}
			}
			if twice {
				return errors.New("has a member name twice in one object")
			}
		}
	}
	return nil
}

// checkEscapes checks the escapes of a string of valid JSON.
func checkEscapes(text []byte) error {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		if i++; text[i] != 'u' {
			continue
		}
		r, next := unit(text[i+1:]), text[i+5:]
		i += 4
		switch {
		case r == 0:
			return errors.New(`holds the escape \u0000, which PostgreSQL cannot hold`)
		case !utf16.IsSurrogate(r):
		case len(next) > 2 && string(next[:2]) == `\u` && utf16.DecodeRune(r, unit(next[2:])) != utf8.RuneError:
			i += len(`\u0000`)
		default:
			return errors.New("holds the escape of half a surrogate pair")
		}
	}
	return nil
}

// unit returns what the four digits of a \u escape stand for.
func unit(digits []byte) rune {
	r, _ := strconv.ParseUint(string(digits[:4]), 16, 16)
	return rune(r)
}

// Package jsonvalue checks JSON objects before they are stored and brings them
// into the one form in which they are compared and hashed.
package jsonvalue

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// CheckObject reports what keeps raw from being stored and read back as it is,
// as a phrase that holds none of its content; nil if nothing does. Refused, next
// to what JSON forbids: duplicate member names (readers differ in which one
// they keep), the escapes \u0000 and lone surrogates (PostgreSQL cannot hold
// the text they stand for), and nesting deeper than maxDepth.
func CheckObject(raw []byte, maxDepth int) error {
	if string(raw) == "{}" {
		return nil
	}
	if err := checkSyntax(raw); err != nil {
		return err
	}
	if first := bytes.TrimLeft(raw, " \t\r\n"); first[0] != '{' {
		return errors.New("is not a JSON object")
	}
	return checkContent(raw, maxDepth)
}

// Check is CheckObject for a value of any type.
func Check(raw []byte, maxDepth int) error {
	if err := checkSyntax(raw); err != nil {
		return err
	}
	return checkContent(raw, maxDepth)
}

func checkSyntax(raw []byte) error {
	if !utf8.Valid(raw) {
		return errors.New("is not valid UTF-8")
	}
	if !json.Valid(raw) {
		return errors.New("is not valid JSON")
	}
	return nil
}

func checkContent(raw []byte, maxDepth int) error {
	if err := checkEscapes(raw); err != nil {
		return err
	}
	return checkMembers(raw, maxDepth)
}

// checkEscapes looks at the \u escapes of valid JSON. A backslash stands only
// within strings there, so that it need not know where it is.
func checkEscapes(raw []byte) error {
	for i := bytes.IndexByte(raw, '\\'); i >= 0 && i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++
		if raw[i] != 'u' {
			continue
		}
		unit := hexUnit(raw[i+1:])
		i += 4
		switch {
		case unit == 0:
			return errors.New(`holds the escape \u0000, which PostgreSQL cannot hold`)
		case !utf16.IsSurrogate(unit):
		case i+6 < len(raw) && raw[i+1] == '\\' && raw[i+2] == 'u' &&
			utf16.DecodeRune(unit, hexUnit(raw[i+3:])) != utf8.RuneError:
			i += 6
		default:
			return errors.New("holds the escape of half a surrogate pair")
		}
	}
	return nil
}

// hexUnit reads four hexadecimal digits. In valid JSON a \u is followed by them.
func hexUnit(digits []byte) rune {
	unit, err := strconv.ParseUint(string(digits[:4]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(unit)
}

// manyNames is from how many names on an object's are looked up in a map.
const manyNames = 16

// checkMembers walks valid JSON and finds duplicate names and deep nesting. It
// looks at brackets and strings alone: every message with metadata passes here.
func checkMembers(raw []byte, maxDepth int) error {
	type level struct {
		first int                 // its first name in names
		index map[string]struct{} // all of its names, once they are many
	}
	levels, names := make([]level, 0, 8), make([][]byte, 0, manyNames)
	for i := 0; i < len(raw); i++ {
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
			end := stringEnd(raw, i)
			name := raw[i:end]
			i = end - 1
			if !isName(raw[end:]) {
				continue
			}
			if bytes.IndexByte(name, '\\') >= 0 {
				name = plain(name)
			}
			top := &levels[len(levels)-1]
			if top.index == nil {
				for _, other := range names[top.first:] {
					if bytes.Equal(name, other) {
						return errTwice
					}
				}
				names = append(names, name)
				if siblings := names[top.first:]; len(siblings) == manyNames {
					top.index = make(map[string]struct{}, 2*manyNames)
					for _, other := range siblings {
						top.index[string(other)] = struct{}{}
					}
				}
				continue
			}
			if _, twice := top.index[string(name)]; twice {
				return errTwice
			}
			top.index[string(name)] = struct{}{}
		}
	}
	return nil
}

var errTwice = errors.New("has a member name twice in one object")

// stringEnd is the place behind the string that begins at start.
func stringEnd(raw []byte, start int) int {
	for i := start + 1; ; i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

// isName reports whether the string before rest is a member's name: in valid
// JSON a colon follows nothing else.
func isName(rest []byte) bool {
	for _, c := range rest {
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			return c == ':'
		}
	}
	return false
}

// plain is a string without its escapes, in quotes as the others are.
func plain(name []byte) []byte {
	var text string
	if err := json.Unmarshal(name, &text); err != nil {
		return name
	}
	return append(append([]byte{'"'}, text...), '"')
}

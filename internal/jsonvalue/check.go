// Package jsonvalue checks JSON objects before they are stored and brings them
// into the one form in which they are compared and hashed.
package jsonvalue

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
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
	if !utf8.Valid(raw) {
		return errors.New("is not valid UTF-8")
	}
	if !json.Valid(raw) {
		return errors.New("is not valid JSON")
	}
	if first := bytes.TrimLeft(raw, " \t\r\n"); first[0] != '{' {
		return errors.New("is not a JSON object")
	}
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

// checkMembers walks valid JSON and finds duplicate names and deep nesting.
func checkMembers(raw []byte, maxDepth int) error {
	type level struct {
		names   map[string]struct{} // nil for an array
		atValue bool                // an object's next token is a value
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var stack []level
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil { // the decoder's own limit on nesting
			return errors.New("is nested too deep")
		}
		if token == json.Delim('}') || token == json.Delim(']') {
			stack = stack[:len(stack)-1]
			continue
		}
		if len(stack) > 0 {
			top := &stack[len(stack)-1]
			if top.names != nil {
				if !top.atValue {
					name, _ := token.(string)
					if _, twice := top.names[name]; twice {
						return errors.New("has a member name twice in one object")
					}
					top.names[name] = struct{}{}
					top.atValue = true
					continue
				}
				top.atValue = false
			}
		}
		if token == json.Delim('{') || token == json.Delim('[') {
			if len(stack) == maxDepth {
				return errors.New("is nested deeper than " + strconv.Itoa(maxDepth) + " levels")
			}
			next := level{}
			if token == json.Delim('{') {
				next.names = map[string]struct{}{}
			}
			stack = append(stack, next)
		}
	}
}

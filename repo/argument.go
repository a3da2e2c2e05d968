package repo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"unicode/utf8"

	"github.com/seed-df90f812/agentstore/internal/jsonvalue"
)

// Check checks a value of the argument, as using the action does. Errors:
// InvalidError of the field "arguments.NAME".
func (a Argument) Check(value json.RawMessage) error {
	_, err := a.read(value)
	return err
}

// read checks a value and converts it for templates: to a string, int64, float64,
// bool or []any.
func (a *Argument) read(raw json.RawMessage) (any, error) {
	value, fault := a.parse(raw)
	if fault != "" {
		return nil, invalid("arguments."+a.Name, "%s", fault)
	}
	return value, nil
}

// parse is like read, but returns a phrase that says what is wrong with the value.
func (a *Argument) parse(raw json.RawMessage) (value any, fault string) {
	if len(raw) > MaxMetadataBytes {
		return nil, fmt.Sprintf("has %d bytes, more than %d", len(raw), MaxMetadataBytes)
	}
	if err := jsonvalue.Check(raw, MaxJSONDepth); err != nil {
		return nil, err.Error()
	}
	switch a.Type {
	case ArgumentString:
		s, ok := decode[string](raw)
		if !ok {
			return nil, "is not a string"
		}
		if matches, err := regexp.MatchString(a.Pattern, s); err != nil || !matches {
			return nil, "does not match the pattern"
		}
		return s, a.bounds(whole(int64(utf8.RuneCountInString(s))), "has a length that is")
	case ArgumentInteger:
		n, err := strconv.ParseInt(string(bytes.TrimSpace(raw)), 10, 64)
		if err != nil {
			return nil, "is not an integer of 64 bits"
		}
		return n, a.bounds(whole(n), "is")
	case ArgumentFloat:
		f, ok := decode[float64](raw)
		if !ok {
			return nil, "is not a number that a float64 can represent"
		}
		return f, a.bounds(big.NewFloat(f), "is")
	case ArgumentBoolean:
		b, ok := decode[bool](raw)
		if !ok {
			return nil, "is not a boolean"
		}
		return b, ""
	default:
		// A list may contain numbers of any size, so they are kept as written.
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.UseNumber()
		var list []any
		if err := decoder.Decode(&list); err != nil || list == nil {
			return nil, "is not a list"
		}
		return list, a.bounds(whole(int64(len(list))), "has a length that is")
	}
}

// decode decodes a value. A null is not ok.
func decode[V any](raw json.RawMessage) (value V, ok bool) {
	var decoded *V
	if err := json.Unmarshal(raw, &decoded); err != nil || decoded == nil {
		return value, false
	}
	return *decoded, true
}

func whole(n int64) *big.Float { return new(big.Float).SetInt64(n) }

// bounds compares exactly: a float64 cannot represent each integer above 2^53.
func (a *Argument) bounds(value *big.Float, what string) (fault string) {
	compare := func(bound *float64) int {
		if bound == nil || math.IsNaN(*bound) { // a definition has no NaN
			return 0
		}
		return value.Cmp(big.NewFloat(*bound))
	}
	switch {
	case compare(a.Min) < 0:
		return fmt.Sprintf("%s below %v", what, *a.Min)
	case compare(a.Max) > 0:
		return fmt.Sprintf("%s above %v", what, *a.Max)
	}
	return ""
}

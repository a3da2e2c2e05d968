package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"unicode/utf8"

	"github.com/seed-df90f812/agentstore/internal/jsonvalue"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/pattern"
	"github.com/seed-df90f812/agentstore/repo"
)

type argument repo.Argument

// checkValue checks a value of an argument. Errors: InvalidError of the field
// "arguments.NAME".
func checkValue(a repo.Argument, value json.RawMessage) error {
	_, err := (*argument)(&a).read(value)
	return err
}

// read checks a value and converts it for templates: to a string, int64, float64,
// bool or []any.
func (a *argument) read(raw json.RawMessage) (any, error) {
	value, fault := a.parse(raw)
	if fault != "" {
		return nil, invalid("arguments."+a.Name, "%s", fault)
	}
	return value, nil
}

// parse is like read, but returns a phrase that says what is wrong with the value.
func (a *argument) parse(raw json.RawMessage) (value any, fault string) {
	if len(raw) > repo.MaxMetadataBytes {
		return nil, fmt.Sprintf("has %d bytes, more than %d", len(raw), repo.MaxMetadataBytes)
	}
	if err := jsonvalue.Check(raw, limits.MaxJSONDepth); err != nil {
		return nil, err.Error()
	}
	switch a.Type {
	case repo.ArgumentString:
		s, ok := decode[string](raw)
		if !ok {
			return nil, "is not a string"
		}
		if fault := a.bounds(whole(int64(utf8.RuneCountInString(s))), "has a length that is"); fault != "" {
			return nil, fault
		}
		return s, a.matches(s)
	case repo.ArgumentInteger:
		n, err := strconv.ParseInt(string(bytes.TrimSpace(raw)), 10, 64)
		if err != nil {
			return nil, "is not an integer of 64 bits"
		}
		return n, a.bounds(whole(n), "is")
	case repo.ArgumentFloat:
		f, ok := decode[float64](raw)
		if !ok {
			return nil, "is not a number that a float64 can represent"
		}
		return f, a.bounds(big.NewFloat(f), "is")
	case repo.ArgumentBoolean:
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

// matches says how a text does not match the pattern. It is not matched if that would take long.
func (a *argument) matches(s string) (fault string) {
	if a.Pattern == "" {
		return ""
	}
	if steps, err := pattern.Steps(a.Pattern, len(s)); errors.Is(err, pattern.ErrLarge) || steps > limits.MaxPatternSteps {
		return "is too long for the pattern"
	}
	if matches, err := regexp.MatchString(a.Pattern, s); err != nil || !matches {
		return "does not match the pattern"
	}
	return ""
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
func (a *argument) bounds(value *big.Float, what string) (fault string) {
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

package rules

import (
	"bytes"
	"cmp"
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
	fault := (*argument)(&a).fault(value)
	return invalidIf(fault != "", "arguments."+a.Name, "%s", fault)
}

// fault returns a phrase that says what is wrong with a value, or nothing.
func (a *argument) fault(raw json.RawMessage) string {
	if len(raw) > repo.MaxMetadataBytes {
		return fmt.Sprintf("has %d bytes, more than %d", len(raw), repo.MaxMetadataBytes)
	}
	if err := jsonvalue.Check(raw, limits.MaxJSONDepth); err != nil {
		return err.Error()
	}
	switch a.Type {
	case repo.ArgumentString:
		s, ok := decode[string](raw)
		if !ok {
			return "is not a string"
		}
		return cmp.Or(a.bounds(whole(utf8.RuneCountInString(s)), "has a length that is"), a.matches(s))
	case repo.ArgumentInteger:
		n, err := strconv.ParseInt(string(bytes.TrimSpace(raw)), 10, 64)
		if err != nil {
			return "is not an integer of 64 bits"
		}
		return a.bounds(whole(n), "is")
	case repo.ArgumentFloat:
		f, ok := decode[float64](raw)
		if !ok {
			return "is not a number that a float64 can represent"
		}
		return a.bounds(big.NewFloat(f), "is")
	case repo.ArgumentBoolean:
		if _, ok := decode[bool](raw); !ok {
			return "is not a boolean"
		}
		return ""
	default:
		list, ok := decode[[]json.RawMessage](raw)
		if !ok {
			return "is not a list"
		}
		return a.bounds(whole(len(list)), "has a length that is")
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

func whole[N int | int64](n N) *big.Float { return new(big.Float).SetInt64(int64(n)) }

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

package repo

import (
	"bytes"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/seed-df90f812/agentstore/internal/jsonvalue"
)

// Normalize checks the action and returns its name and its definition as they
// are stored.
func (a NewAction) Normalize() (ActionName, ActionDefinition, error) {
	name, err := ParseActionName(a.Name)
	if err != nil {
		return ActionName{}, ActionDefinition{}, err
	}
	if err := checkName("created_by", a.CreatedBy); err != nil {
		return ActionName{}, ActionDefinition{}, err
	}
	definition, err := a.ActionDefinition.Normalize()
	return name, definition, err
}

// Normalize checks the definition and returns it as it is stored. d itself is
// left alone, and shares no memory with it.
func (d ActionDefinition) Normalize() (ActionDefinition, error) {
	for _, text := range []struct{ field, value string }{
		{"description", d.Description}, {"definition_of_done", d.DefinitionOfDone},
	} {
		if err := checkText(text.field, text.value, MaxTextBytes); err != nil {
			return d, err
		}
	}
	for _, name := range []struct{ field, value string }{
		{"actors.strategy", d.Actors.Strategy}, {"actors.execution", d.Actors.Execution},
		{"actors.review", d.Actors.Review}, {"actors.apply", d.Actors.Apply},
		{"actors.estimation", d.Actors.Estimation}, {"actors.invariant", d.Actors.Invariant},
		{"automation_profile", d.AutomationProfile},
	} {
		if err := checkName(name.field, name.value); err != nil {
			return d, err
		}
	}
	var err error
	if d.InputsSchema, err = normalizeMetadata("inputs_schema", d.InputsSchema); err != nil {
		return d, err
	}
	if err := checkTags(d.Tags); err != nil {
		return d, err
	}
	if d.Arguments, err = normalizeArguments(d.Arguments); err != nil {
		return d, err
	}
	if err := checkInvariants(d.Invariants); err != nil {
		return d, err
	}
	d.Tags, d.Invariants = orEmpty(d.Tags), orEmpty(d.Invariants)
	if _, _, err := d.template(); err != nil {
		return d, err
	}
	return d, nil
}

// orEmpty copies a list, and makes one that was not given the same as an empty
// one.
func orEmpty[V any](list []V) []V { return append([]V{}, list...) }

func at(field string, i int) string { return field + "[" + strconv.Itoa(i) + "]" }

func checkTags(tags []string) error {
	if len(tags) > MaxTags {
		return invalid("tags", "has %d entries, more than %d", len(tags), MaxTags)
	}
	for i, tag := range tags {
		if tag == "" {
			return invalid(at("tags", i), "is empty")
		}
		if err := checkName(at("tags", i), tag); err != nil {
			return err
		}
		if slices.Contains(tags[:i], tag) {
			return invalid(at("tags", i), "is in the list twice")
		}
	}
	return nil
}

func checkInvariants(invariants []string) error {
	if len(invariants) > MaxInvariants {
		return invalid("invariants", "has %d entries, more than %d", len(invariants), MaxInvariants)
	}
	for i, text := range invariants {
		if err := checkInvariant(at("invariants", i), text); err != nil {
			return err
		}
	}
	return nil
}

func checkInvariant(field, text string) error {
	if text == "" {
		return invalid(field, "is empty")
	}
	if err := checkText(field, text, MaxTextBytes); err != nil {
		return err
	}
	return nil
}

func normalizeArguments(arguments []Argument) ([]Argument, error) {
	if len(arguments) > MaxArguments {
		return nil, invalid("arguments", "has %d entries, more than %d", len(arguments), MaxArguments)
	}
	normal := make([]Argument, len(arguments))
	for i, argument := range arguments {
		if err := argument.check(); err != nil {
			err.Field = at("arguments", i) + "." + err.Field
			return nil, err
		}
		for _, other := range normal[:i] {
			if other.Name == argument.Name {
				return nil, invalid(at("arguments", i)+".name", "is in the list twice")
			}
		}
		argument.Default = bytes.Clone(argument.Default)
		argument.Min, argument.Max = clonePointer(argument.Min), clonePointer(argument.Max)
		normal[i] = argument
	}
	return normal, nil
}

// argumentName is what a template can call a field.
var argumentName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,99}$`)

func (a *Argument) check() *InvalidError {
	if !argumentName.MatchString(a.Name) {
		return invalid("name", "is not a letter or underscore and up to 99 letters, digits and underscores")
	}
	switch a.Type {
	case ArgumentString, ArgumentInteger, ArgumentFloat, ArgumentBoolean, ArgumentList:
	default:
		return invalid("type", "is not string, integer, float, boolean or list")
	}
	if err := checkText("description", a.Description, MaxTextBytes); err != nil {
		return err
	}
	for _, bound := range []struct {
		field string
		value *float64
	}{{"min", a.Min}, {"max", a.Max}} {
		switch {
		case bound.value == nil:
		case a.Type == ArgumentBoolean:
			return invalid(bound.field, "is set, but a boolean has no bounds")
		case math.IsNaN(*bound.value) || math.IsInf(*bound.value, 0):
			return invalid(bound.field, "is not a finite number")
		}
	}
	if a.Min != nil && a.Max != nil && *a.Min > *a.Max {
		return invalid("min", "is above max")
	}
	if err := a.checkPattern(); err != nil {
		return err
	}
	if a.Default == nil {
		return nil
	}
	if a.Required {
		return invalid("default", "is set, but the argument is required")
	}
	if _, err := a.value(a.Default); err != nil {
		err.Field = "default"
		return err
	}
	return nil
}

func (a *Argument) checkPattern() *InvalidError {
	if a.Pattern == "" {
		return nil
	}
	if a.Type != ArgumentString {
		return invalid("pattern", "is set, but only a string has one")
	}
	if err := checkText("pattern", a.Pattern, MaxPatternBytes); err != nil {
		return err
	}
	if _, err := regexp.Compile(a.Pattern); err != nil {
		return invalid("pattern", "is not a regular expression")
	}
	return nil
}

// value checks a value against the argument and returns what a template gets:
// string, int64, float64, bool or []any. The errors' field is left to the caller.
func (a *Argument) value(raw json.RawMessage) (any, *InvalidError) {
	if len(raw) > MaxMetadataBytes {
		return nil, invalid("", "has %d bytes, more than %d", len(raw), MaxMetadataBytes)
	}
	if err := jsonvalue.Check(raw, MaxJSONDepth); err != nil {
		return nil, invalid("", "%s", err)
	}
	switch a.Type {
	case ArgumentString:
		return a.stringValue(raw)
	case ArgumentInteger:
		n, err := strconv.ParseInt(string(bytes.TrimSpace(raw)), 10, 64)
		if err != nil {
			return nil, invalid("", "is not an integer of 64 bits")
		}
		return n, a.bounds(float64(n), "is")
	case ArgumentFloat:
		var f *float64
		if err := json.Unmarshal(raw, &f); err != nil || f == nil {
			return nil, invalid("", "is not a number that a float64 holds")
		}
		return *f, a.bounds(*f, "is")
	case ArgumentBoolean:
		var b *bool
		if err := json.Unmarshal(raw, &b); err != nil || b == nil {
			return nil, invalid("", "is not a boolean")
		}
		return *b, nil
	default:
		// Numbers as they are written: a list may hold any.
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.UseNumber()
		var list []any
		if err := decoder.Decode(&list); err != nil || list == nil {
			return nil, invalid("", "is not a list")
		}
		return list, a.bounds(float64(len(list)), "has a length that is")
	}
}

func (a *Argument) stringValue(raw json.RawMessage) (any, *InvalidError) {
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil || s == nil {
		return nil, invalid("", "is not a string")
	}
	if a.Pattern != "" && !regexp.MustCompile(a.Pattern).MatchString(*s) {
		return nil, invalid("", "does not match the pattern")
	}
	return *s, a.bounds(float64(utf8.RuneCountInString(*s)), "has a length that is")
}

func (a *Argument) bounds(f float64, what string) *InvalidError {
	switch {
	case a.Min != nil && f < *a.Min:
		return invalid("", "%s below %v", what, *a.Min)
	case a.Max != nil && f > *a.Max:
		return invalid("", "%s above %v", what, *a.Max)
	}
	return nil
}

// Conflict reports how the stored action differs from the one that a would
// create, whose name and definition are normalized: nil if it does not.
func (a NewAction) Conflict(definition ActionDefinition, stored Action) error {
	field := definition.differs(stored.ActionDefinition)
	if field == "" && a.CreatedBy != stored.CreatedBy {
		field = "created_by"
	}
	if field == "" {
		return nil
	}
	return &ActionConflict{Name: stored.Name, Field: field, Version: stored.Version}
}

// differs names the first field that differs.
func (d ActionDefinition) differs(other ActionDefinition) string {
	switch {
	case d.Description != other.Description:
		return "description"
	case d.DefinitionOfDone != other.DefinitionOfDone:
		return "definition_of_done"
	case d.Actors != other.Actors:
		return "actors"
	case d.AutomationProfile != other.AutomationProfile:
		return "automation_profile"
	case d.Reusable != other.Reusable:
		return "reusable"
	case d.ReadOnly != other.ReadOnly:
		return "read_only"
	case !jsonvalue.Equal(d.InputsSchema, other.InputsSchema):
		return "inputs_schema"
	case !slices.Equal(d.Tags, other.Tags):
		return "tags"
	case !slices.EqualFunc(d.Arguments, other.Arguments, Argument.equal):
		return "arguments"
	case !slices.Equal(d.Invariants, other.Invariants):
		return "invariants"
	}
	return ""
}

func (a Argument) equal(b Argument) bool {
	same := func(a, b *float64) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }
	return a.Name == b.Name && a.Type == b.Type && a.Required == b.Required && a.Description == b.Description &&
		a.Pattern == b.Pattern && same(a.Min, b.Min) && same(a.Max, b.Max) &&
		(a.Default == nil) == (b.Default == nil) && (a.Default == nil || jsonvalue.Equal(a.Default, b.Default))
}

package rules

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"regexp"
	"slices"

	"github.com/seed-df90f812/agentstore/internal/jsonvalue"
	"github.com/seed-df90f812/agentstore/repo"
)

// NormalizeAction checks the action and returns its name and its definition as
// they are stored.
func NormalizeAction(a repo.NewAction) (repo.ActionName, repo.ActionDefinition, error) {
	parsed, err := repo.ParseActionName(a.Name)
	if err = cmp.Or(err, checkNames(name{"created_by", a.CreatedBy})); err != nil {
		return repo.ActionName{}, repo.ActionDefinition{}, err
	}
	definition, err := NormalizeDefinition(a.ActionDefinition)
	return parsed, definition, err
}

// NormalizeActionUpdate checks the update of an action and returns its name and
// the definition as they are stored.
func NormalizeActionUpdate(action string, version int64, d repo.ActionDefinition) (repo.ActionName, repo.ActionDefinition, error) {
	parsed, err := repo.ParseActionName(action)
	if err = cmp.Or(err, CheckSequence("version", version)); err != nil {
		return repo.ActionName{}, d, err
	}
	d, err = NormalizeDefinition(d)
	return parsed, d, err
}

// NormalizeDefinition checks the definition and returns it as it is stored.
func NormalizeDefinition(d repo.ActionDefinition) (repo.ActionDefinition, error) {
	err := cmp.Or(
		checkText("description", d.Description, repo.MaxTextBytes),
		checkText("definition_of_done", d.DefinitionOfDone, repo.MaxTextBytes),
		checkNames(
			name{"actors.strategy", d.Actors.Strategy}, name{"actors.execution", d.Actors.Execution},
			name{"actors.review", d.Actors.Review}, name{"actors.apply", d.Actors.Apply},
			name{"actors.estimation", d.Actors.Estimation}, name{"actors.invariant", d.Actors.Invariant},
			name{"automation_profile", d.AutomationProfile},
		),
		normalizeObject("inputs_schema", &d.InputsSchema),
		checkTags(d.Tags),
		normalizeArguments(&d.Arguments),
		checkInvariants(d.Invariants),
	)
	if err != nil {
		return d, err
	}
	d.Tags, d.Invariants = orEmpty(d.Tags), orEmpty(d.Invariants)
	return d, d.CheckTemplate()
}

func checkTags(tags []string) error {
	if err := checkEntries("tags", len(tags), repo.MaxTags); err != nil {
		return err
	}
	for i, tag := range tags {
		err := cmp.Or(
			invalidIf(tag == "", at("tags", i), "is empty"),
			checkNames(name{at("tags", i), tag}),
			invalidIf(slices.Contains(tags[:i], tag), at("tags", i), "is in the list twice"),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

func checkInvariants(invariants []string) error {
	if err := checkEntries("invariants", len(invariants), repo.MaxInvariants); err != nil {
		return err
	}
	for i, text := range invariants {
		if err := checkInvariant(at("invariants", i), text); err != nil {
			return err
		}
	}
	return nil
}

func checkInvariant(field, text string) error {
	return cmp.Or(invalidIf(text == "", field, "is empty"), checkText(field, text, repo.MaxTextBytes))
}

func normalizeArguments(arguments *[]repo.Argument) error {
	if err := checkEntries("arguments", len(*arguments), repo.MaxArguments); err != nil {
		return err
	}
	normal := make([]repo.Argument, len(*arguments))
	for i, argument := range *arguments {
		if err := checkArgument(argument); err != nil {
			return within(at("arguments", i)+".", err)
		}
		if slices.ContainsFunc(normal[:i], func(other repo.Argument) bool { return other.Name == argument.Name }) {
			return invalid(at("arguments", i)+".name", "is in the list twice")
		}
		argument.Default = bytes.Clone(argument.Default)
		argument.Min, argument.Max = clonePointer(argument.Min), clonePointer(argument.Max)
		normal[i] = argument
	}
	*arguments = normal
	return nil
}

// argumentName matches names that a template can use for a field.
var argumentName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,99}$`)

func checkArgument(a repo.Argument) error {
	if !argumentName.MatchString(a.Name) {
		return invalid("name", "is not a letter or underscore and up to 99 letters, digits and underscores")
	}
	switch a.Type {
	case repo.ArgumentString, repo.ArgumentInteger, repo.ArgumentFloat, repo.ArgumentBoolean, repo.ArgumentList:
	default:
		return invalid("type", "is not string, integer, float, boolean or list")
	}
	if err := checkText("description", a.Description, repo.MaxTextBytes); err != nil {
		return err
	}
	for _, bound := range []struct {
		field string
		value *float64
	}{{"min", a.Min}, {"max", a.Max}} {
		switch {
		case bound.value == nil:
		case a.Type == repo.ArgumentBoolean:
			return invalid(bound.field, "is set, but a boolean has no bounds")
		case math.IsNaN(*bound.value) || math.IsInf(*bound.value, 0):
			return invalid(bound.field, "is not a finite number")
		}
	}
	if a.Min != nil && a.Max != nil && *a.Min > *a.Max {
		return invalid("min", "is above max")
	}
	if err := checkPattern(a); err != nil {
		return err
	}
	switch {
	case a.Default == nil:
		return nil
	case a.Required:
		return invalid("default", "is set, but the argument is required")
	}
	if fault, found := errors.AsType[*repo.InvalidError](a.Check(a.Default)); found {
		return invalid("default", "%s", fault.Reason)
	}
	return nil
}

func checkPattern(a repo.Argument) error {
	if a.Pattern == "" {
		return nil
	}
	if a.Type != repo.ArgumentString {
		return invalid("pattern", "is set, but only a string has one")
	}
	if err := checkText("pattern", a.Pattern, repo.MaxPatternBytes); err != nil {
		return err
	}
	_, err := regexp.Compile(a.Pattern)
	return invalidIf(err != nil, "pattern", "is not a regular expression")
}

// ActionConflict returns an error that says how the stored action differs from the
// one that a, with its normalized definition, would create, or nil.
func ActionConflict(a repo.NewAction, definition repo.ActionDefinition, stored repo.Action) error {
	return conflict(func(field string) error {
		return &repo.ActionConflictError{Name: stored.Name, Field: field, Version: stored.Version}
	},
		difference{"description", definition.Description != stored.Description},
		difference{"definition_of_done", definition.DefinitionOfDone != stored.DefinitionOfDone},
		difference{"actors", definition.Actors != stored.Actors},
		difference{"automation_profile", definition.AutomationProfile != stored.AutomationProfile},
		difference{"reusable", definition.Reusable != stored.Reusable},
		difference{"read_only", definition.ReadOnly != stored.ReadOnly},
		difference{"inputs_schema", !jsonvalue.Equal(definition.InputsSchema, stored.InputsSchema)},
		difference{"tags", !slices.Equal(definition.Tags, stored.Tags)},
		difference{"arguments", !slices.EqualFunc(definition.Arguments, stored.Arguments, sameArgument)},
		difference{"invariants", !slices.Equal(definition.Invariants, stored.Invariants)},
		difference{"created_by", a.CreatedBy != stored.CreatedBy},
	)
}

func sameArgument(a, b repo.Argument) bool {
	return a.Name == b.Name && a.Type == b.Type && a.Required == b.Required && a.Description == b.Description &&
		a.Pattern == b.Pattern && samePointer(a.Min, b.Min) && samePointer(a.Max, b.Max) &&
		(a.Default == nil) == (b.Default == nil) && (a.Default == nil || jsonvalue.Equal(a.Default, b.Default))
}

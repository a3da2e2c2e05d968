package rules

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"regexp"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/internal/jsonvalue"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/pattern"
	"github.com/seed-df90f812/agentstore/repo"
)

// NormalizeAction checks the action and returns its name and its definition as
// they are stored.
func NormalizeAction(view string, a repo.NewAction) (repo.ActionName, repo.ActionDefinition, error) {
	parsed, err := repo.ParseActionName(actionInView(view, a.Name))
	err = cmp.Or(err, invalidIf(!IsInView(view, parsed.Namespace), "action",
		"has another namespace than the store"))
	if err = cmp.Or(err, checkNames(name{"created_by", a.CreatedBy})); err != nil {
		return repo.ActionName{}, repo.ActionDefinition{}, err
	}
	definition, err := NormalizeDefinition(a.ActionDefinition)
	return parsed, definition, err
}

// NormalizeActionUpdate checks the update of an action and returns its name and
// the definition as they are stored.
func NormalizeActionUpdate(view, action string, version int64,
	d repo.ActionDefinition,
) (repo.ActionName, repo.ActionDefinition, error) {
	parsed, err := ParseAction(view, action)
	if err = cmp.Or(err, CheckSequence("version", version)); err != nil {
		return repo.ActionName{}, d, err
	}
	d, err = NormalizeDefinition(d)
	return parsed, d, err
}

// NormalizeDefinition checks the definition and returns it as it is stored.
func NormalizeDefinition(d repo.ActionDefinition) (repo.ActionDefinition, error) {
	err := cmp.Or(
		checkText("description", d.Description, limits.MaxTextBytes),
		checkText("definition_of_done", d.DefinitionOfDone, limits.MaxTextBytes),
		checkNames(
			name{"strategy_actor", d.StrategyActor}, name{"execution_actor", d.ExecutionActor},
			name{"review_actor", d.ReviewActor}, name{"apply_actor", d.ApplyActor},
			name{"estimation_actor", d.EstimationActor}, name{"invariant_actor", d.InvariantActor},
			name{"automation_profile", d.AutomationProfile},
		),
		normalizeObject("inputs_schema", &d.InputsSchema),
		invalidIf(d.MaxAttempts < 0 || d.MaxAttempts > 1<<31-1, "max_attempts", "is not between 1 and 2^31-1"),
		checkDelay("max_age", d.MaxAge),
		checkDelay("keep", d.Keep),
		checkTags(d.Tags),
		normalizePhases(&d.Phases),
		normalizeArguments(&d.Arguments),
		checkInvariants(d.Invariants),
	)
	if err != nil {
		return d, err
	}
	d.Tags, d.Invariants = orEmpty(d.Tags), orEmpty(d.Invariants)
	d.MaxAttempts = max(d.MaxAttempts, 1)
	d.MaxAge, d.Keep = d.MaxAge.Truncate(time.Microsecond), d.Keep.Truncate(time.Microsecond)
	_, err = Render(d, nil)
	return d, err
}

// checkDelay checks how long something is put off.
func checkDelay(field string, d time.Duration) error {
	return invalidIf(d < 0 || d > limits.MaxDelay, field, "is negative, or more than 10 years")
}

func checkTags(tags []string) error {
	return checkEach("tags", len(tags), limits.MaxTags, func(field string, i int) error {
		return cmp.Or(
			invalidIf(tags[i] == "", field, "is empty"),
			checkNames(name{field, tags[i]}),
			invalidIf(slices.Contains(tags[:i], tags[i]), field, "is in the list twice"),
		)
	})
}

// normalizePhases replaces all of the phases by none.
func normalizePhases(phases *[]repo.Phase) error {
	var normal []repo.Phase
	next := 0
	for i, phase := range *phases {
		found := slices.Index(allPhases[next:], phase)
		if found < 0 {
			return invalid(at("phases", i), "is not strategize, execute or apply, or not in this order")
		}
		next += found + 1
		normal = append(normal, phase)
	}
	if len(normal) == len(allPhases) {
		normal = nil
	}
	*phases = normal
	return nil
}

func checkInvariants(invariants []string) error {
	return checkEach("invariants", len(invariants), limits.MaxInvariants, func(field string, i int) error {
		return checkInvariant(field, invariants[i])
	})
}

func checkInvariant(field, text string) error {
	return cmp.Or(invalidIf(text == "", field, "is empty"), checkText(field, text, limits.MaxTextBytes))
}

func normalizeArguments(arguments *[]repo.Argument) error {
	normal := orEmpty(*arguments)
	*arguments = normal
	return checkEach("arguments", len(normal), limits.MaxArguments, func(field string, i int) error {
		argument := &normal[i]
		twice := slices.ContainsFunc(normal[:i], func(other repo.Argument) bool { return other.Name == argument.Name })
		err := cmp.Or(checkArgument(*argument), invalidIf(twice, "name", "is in the list twice"))
		argument.Default = bytes.Clone(argument.Default)
		argument.Min, argument.Max = ClonePointer(argument.Min), ClonePointer(argument.Max)
		return within(field+".", err)
	})
}

// argumentName matches names of any length.
var argumentName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func checkArgument(a repo.Argument) error {
	_, known := zeros[a.Type]
	err := cmp.Or(
		invalidIf(len(a.Name) > 100 || !argumentName.MatchString(a.Name), "name",
			"is not a letter or underscore and up to 99 letters, digits and underscores"),
		invalidIf(!known, "type", "is not string, integer, float, boolean or list"),
		checkText("description", a.Description, limits.MaxTextBytes),
		checkBound("min", a.Type, a.Min),
		checkBound("max", a.Type, a.Max),
		invalidIf(a.Min != nil && a.Max != nil && *a.Min > *a.Max, "min", "is above max"),
		checkPattern(a),
		invalidIf(a.Default != nil && a.Required, "default", "is set, but the argument is required"),
	)
	if err != nil || a.Default == nil {
		return err
	}
	if fault, found := errors.AsType[*repo.InvalidError](checkValue(a, a.Default)); found {
		return invalid("default", "%s", fault.Reason)
	}
	return nil
}

func checkBound(field string, of repo.ArgumentType, bound *float64) error {
	switch {
	case bound == nil:
		return nil
	case of == repo.ArgumentBoolean:
		return invalid(field, "is set, but a boolean has no bounds")
	}
	return invalidIf(math.IsNaN(*bound) || math.IsInf(*bound, 0), field, "is not a finite number")
}

func checkPattern(a repo.Argument) error {
	if a.Pattern == "" {
		return nil
	}
	if a.Type != repo.ArgumentString {
		return invalid("pattern", "is set, but only a string has one")
	}
	if err := checkText("pattern", a.Pattern, limits.MaxPatternBytes); err != nil {
		return err
	}
	if _, err := pattern.Steps(a.Pattern, 0); errors.Is(err, pattern.ErrLarge) {
		return invalid("pattern", "has more than %d instructions", limits.MaxPatternSize)
	}
	_, err := regexp.Compile(a.Pattern)
	return invalidIf(err != nil, "pattern", "is not a regular expression")
}

// ActionConflict returns an error that says how the stored action differs from the
// one that a, with its normalized definition, would create, or nil.
func ActionConflict(a repo.NewAction, definition repo.ActionDefinition, stored repo.Action) error {
	return conflict(repo.ExistsError{Kind: "action", Name: stored.Name.String()},
		difference{"description", definition.Description != stored.Description},
		difference{"definition_of_done", definition.DefinitionOfDone != stored.DefinitionOfDone},
		difference{"strategy_actor", definition.StrategyActor != stored.StrategyActor},
		difference{"execution_actor", definition.ExecutionActor != stored.ExecutionActor},
		difference{"review_actor", definition.ReviewActor != stored.ReviewActor},
		difference{"apply_actor", definition.ApplyActor != stored.ApplyActor},
		difference{"estimation_actor", definition.EstimationActor != stored.EstimationActor},
		difference{"invariant_actor", definition.InvariantActor != stored.InvariantActor},
		difference{"automation_profile", definition.AutomationProfile != stored.AutomationProfile},
		difference{"reusable", definition.Reusable != stored.Reusable},
		difference{"read_only", definition.ReadOnly != stored.ReadOnly},
		difference{"inputs_schema", !jsonvalue.Equal(definition.InputsSchema, stored.InputsSchema)},
		difference{"max_attempts", definition.MaxAttempts != stored.MaxAttempts},
		difference{"max_age", definition.MaxAge != stored.MaxAge},
		difference{"keep", definition.Keep != stored.Keep},
		difference{"phases", !slices.Equal(definition.Phases, stored.Phases)},
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

package repo

import (
	"encoding/json"
	"time"
)

// Action is a template that plans are made from. Its name is its identity.
type Action struct {
	Name  ActionName
	State ActionState
	// Version counts the changes, from 1.
	Version int64
	ActionDefinition
	// CreatedBy is optional.
	CreatedBy string
	// CreatedAt and UpdatedAt are the database's clock.
	CreatedAt, UpdatedAt time.Time
}

// ActionState says whether an action can be used.
type ActionState string

// The states of an action.
const (
	ActionAvailable ActionState = "available"
	ActionArchived  ActionState = "archived"
)

// ActionDefinition is what an action says: all of it can be updated.
type ActionDefinition struct {
	// Description is any text of at most MaxTextBytes.
	Description string
	// DefinitionOfDone is a template of at most MaxTextBytes: see
	// ActionDefinition.Render.
	DefinitionOfDone string
	// Actors do the plan's work. Each is optional.
	Actors Actors
	// AutomationProfile is used by plans that do not name one. Optional.
	AutomationProfile string
	// Reusable keeps the action available after its first use, which otherwise
	// archives it.
	Reusable bool
	// ReadOnly makes every project link of its plans read-only. It does not keep
	// plans from running.
	ReadOnly bool
	// InputsSchema is a JSON object, byte for byte as it was given. Nil: "{}".
	// The store does not interpret it.
	InputsSchema json.RawMessage
	// Tags are distinct names, in order, at most MaxTags.
	Tags []string
	// Arguments are what a use gives values for, in order, at most
	// MaxArguments.
	Arguments []Argument
	// Invariants hold for every plan, in order, at most MaxInvariants, each of
	// at most MaxTextBytes.
	Invariants []string
}

// Actors names who does what. Each is optional, at most MaxNameBytes.
type Actors struct {
	Strategy, Execution, Review, Apply, Estimation, Invariant string
}

// Argument declares one argument of an action.
type Argument struct {
	// Name is a letter or underscore followed by up to 99 letters, underscores or
	// digits. Templates use it as a field.
	Name        string
	Type        ArgumentType
	Required    bool
	Description string
	// Default is the value of an argument that is not given: JSON of Type, and
	// within the bounds. Nil: none. Required arguments have none.
	Default json.RawMessage
	// Min and Max bound, both inclusive, the value of an integer or float, the
	// characters of a string, the items of a list. Nil: no bound.
	Min, Max *float64
	// Pattern is a regular expression (RE2) that a string has to match
	// somewhere. Empty: any.
	Pattern string
}

// ArgumentType is the type of an argument's value.
type ArgumentType string

// The types. An integer is a JSON number without fraction or exponent that fits
// into 64 bits, a float any JSON number that a float64 can hold.
const (
	ArgumentString  ArgumentType = "string"
	ArgumentInteger ArgumentType = "integer"
	ArgumentFloat   ArgumentType = "float"
	ArgumentBoolean ArgumentType = "boolean"
	ArgumentList    ArgumentType = "list"
)

// NewAction describes an action to create.
type NewAction struct {
	// Name is "[[server:]namespace/]name": see ParseActionName.
	Name string
	ActionDefinition
	// CreatedBy is optional, at most MaxNameBytes.
	CreatedBy string
}

// ActionFilter selects the actions of a list.
type ActionFilter struct {
	// Server and Namespace: an empty namespace means DefaultNamespace.
	Server, Namespace string
	// State: empty means any.
	State ActionState
	// Tag: empty means any.
	Tag string
}

// ActionPage is one page of a list, by name.
type ActionPage struct {
	Actions []Action
	// Next continues the list. Empty: this was the last page.
	Next Cursor
}

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

// ActionDefinition has the fields of an action that can be updated.
type ActionDefinition struct {
	// Description is a text of at most MaxTextBytes.
	Description string
	// DefinitionOfDone is a template of at most MaxTextBytes: see
	// ActionDefinition.Render.
	DefinitionOfDone string
	// Actors do the work of the action's plans. Each is optional.
	Actors Actors
	// AutomationProfile is used by plans that do not name one. Optional.
	AutomationProfile string
	// Reusable keeps the action available after its first use, which otherwise
	// archives it.
	Reusable bool
	// ReadOnly makes every project link of its plans read-only. It does not keep
	// plans from running.
	ReadOnly bool
	// InputsSchema is a JSON object, stored byte for byte. Nil: "{}". The store
	// does not interpret it.
	InputsSchema json.RawMessage
	// Tags are at most MaxTags distinct names, in order.
	Tags []string
	// Arguments declare at most MaxArguments arguments, in order.
	Arguments []Argument
	// Invariants are at most MaxInvariants rules for every plan, in order, each of
	// at most MaxTextBytes.
	Invariants []string
}

// Actors names the actor of each kind of work. Each is optional, at most
// MaxNameBytes.
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
	// Default is used if a use does not give a value: JSON of Type, within the
	// bounds. Nil: none. Required arguments have none.
	Default json.RawMessage
	// Min and Max are inclusive bounds of the value of an integer or float, of the
	// number of characters of a string, and of the number of items of a list. Nil:
	// no bound.
	Min, Max *float64
	// Pattern is a regular expression (RE2) that must match some part of a string.
	// Empty: any string.
	Pattern string
}

// ArgumentType is the type of an argument's value.
type ArgumentType string

// The types. An integer is a JSON number without fraction or exponent that fits
// into 64 bits. A float is a JSON number that a float64 can represent.
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

package repo

import (
	"encoding/json"
	"time"
)

// Action is a template that plans are made from. Its name is its identity.
type Action struct {
	Name     ActionName
	Archived bool  // it can no longer be used
	Version  int64 // counts the changes, from 1
	ActionDefinition
	CreatedBy            string    // optional
	CreatedAt, UpdatedAt time.Time // by the database's clock
}

// ActionDefinition has the fields of an action that can be updated.
type ActionDefinition struct {
	Description string // at most 64 KiB
	// DefinitionOfDone is a text of at most 64 KiB, in which {{.branch}} stands for the value of the argument "branch": a
	// string as it is, anything else as JSON. Using the action renders it, to at most 1 MiB.
	DefinitionOfDone string
	// The actors of each kind of work, at most MaxNameBytes; optional.
	StrategyActor, ExecutionActor, ReviewActor, ApplyActor, EstimationActor, InvariantActor string

	Phases            []Phase         // that a plan goes through, in order; the last makes it applied; none: all three
	AutomationProfile string          // of plans that do not name one; optional
	Reusable          bool            // available after its first use, which otherwise archives it
	ReadOnly          bool            // makes every project link of its plans read-only
	InputsSchema      json.RawMessage // an object, stored byte for byte and not interpreted; nil: "{}"
	MaxAttempts       int             // of a plan's work: so many failures and expired claims together error it; zero: 1
	// of a plan since it is due, from which on it is errored instead of claimed (Plan.Deadline); zero: none
	MaxAge time.Duration
	// Keep is how long a plan is kept after its end (Plans.Sweep). Zero: for ever. A complete plan waits for its next
	// phase.
	Keep       time.Duration
	Tags       []string   // at most 100 distinct names, in order
	Arguments  []Argument // at most 100, in order
	Invariants []string   // at most 100 rules for every plan, in order, each of at most 64 KiB
}

// Argument declares one argument of an action.
type Argument struct {
	Name        string // a letter or underscore followed by up to 99 letters, underscores or digits
	Type        ArgumentType
	Required    bool
	Description string
	Default     json.RawMessage // used without a value: JSON of Type, within the bounds; not with Required
	// Min and Max are inclusive bounds of a number, of a string's characters and of a list's items. Nil: no bound.
	Min, Max *float64
	// Pattern is a regular expression (RE2) that must match some part of a string; empty: any. It has at most 1,000 bytes
	// and 10,000 instructions (x{100} has a hundred). A use's texts times their patterns' instructions are at most 16 Mi.
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
	Name string // "[[server:]namespace/]name": see ParseActionName
	ActionDefinition
	CreatedBy string // at most MaxNameBytes; optional
}

// ActionFilter selects the actions of a list.
type ActionFilter struct {
	Server, Namespace   string // an empty namespace means DefaultNamespace
	Available, Archived bool   // only usable ones, or only the others; not both
	Tag                 string // empty: any
}

package memory

import (
	"bytes"
	"slices"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// These functions copy values before they are stored and before they are returned.

// set gives a field another value, if there is one.
func set[V any](field, value *V) {
	if value != nil {
		*field = *value
	}
}

func copySession(s repo.Session) repo.Session {
	s.Metadata, s.Budget = bytes.Clone(s.Metadata), rules.ClonePointer(s.Budget)
	return s
}

func copyMessage(m *repo.Message) repo.Message {
	copied := *m
	copied.Metadata, copied.Payload = bytes.Clone(m.Metadata), bytes.Clone(m.Payload)
	return copied
}

func copyAction(a *repo.Action) repo.Action {
	copied := *a
	copied.ActionDefinition = copyDefinition(a.ActionDefinition)
	return copied
}

func copyDefinition(d repo.ActionDefinition) repo.ActionDefinition {
	d.InputsSchema = bytes.Clone(d.InputsSchema)
	d.Tags, d.Invariants, d.Phases = slices.Clone(d.Tags), slices.Clone(d.Invariants), slices.Clone(d.Phases)
	d.Arguments = slices.Clone(d.Arguments)
	for i := range d.Arguments {
		argument := &d.Arguments[i]
		argument.Default = bytes.Clone(argument.Default)
		argument.Min, argument.Max = rules.ClonePointer(argument.Min), rules.ClonePointer(argument.Max)
	}
	return d
}

func copyPlan(p repo.Plan) repo.Plan {
	p.Phases = slices.Clone(p.Phases)
	p.Projects, p.Invariants, p.Arguments = slices.Clone(p.Projects), slices.Clone(p.Invariants), slices.Clone(p.Arguments)
	for i := range p.Arguments {
		p.Arguments[i].Value = bytes.Clone(p.Arguments[i].Value)
	}
	p.AutomationSnapshot, p.ErrorDetails = bytes.Clone(p.AutomationSnapshot), bytes.Clone(p.ErrorDetails)
	p.LastCompletedStep = rules.ClonePointer(p.LastCompletedStep)
	return p
}

func copyEntry(e *auditlog.Entry) repo.AuditEntry {
	copied := e.AuditEntry
	copied.Details = bytes.Clone(e.Details)
	return copied
}

func copyCheckpoint(c auditlog.Checkpoint) auditlog.Checkpoint {
	c.Note = slices.Clone(c.Note)
	return c
}

package document

import "github.com/seed-df90f812/agentstore/repo"

const (
	sessionID = iota
	sessionNamespace
	sessionActor
	sessionProfile
	sessionMetadata
	sessionUsage
	sessionBudget
	sessionCreatedAt
	sessionUpdatedAt
)

var sessionMembers = []member{
	sessionID:        {name: "id"},
	sessionNamespace: {name: "namespace"},
	sessionActor:     {name: "actor", optional: true},
	sessionProfile:   {name: "automation_profile", optional: true},
	sessionMetadata:  {name: "metadata"},
	sessionUsage:     {name: "usage"},
	sessionBudget:    {name: "budget_nanos", optional: true},
	sessionCreatedAt: {name: "created_at"},
	sessionUpdatedAt: {name: "updated_at"},
}

var usageMembers = []member{{name: "input_tokens"}, {name: "output_tokens"}, {name: "cost_nanos"}}

func (r *Reader) readSession() *fault {
	s := &r.session
	object := members{source: r.source, list: sessionMembers}
	f := object.each(func(i int) (f *fault) {
		switch i {
		case sessionID:
			s.ID, f = r.source.id()
		case sessionNamespace:
			s.Namespace, f = r.source.nameText(repo.MaxNameBytes)
		case sessionActor:
			s.Actor, f = r.source.nameText(repo.MaxNameBytes)
		case sessionProfile:
			s.AutomationProfile, f = r.source.nameText(repo.MaxNameBytes)
		case sessionMetadata:
			s.Metadata, f = r.source.object(repo.MaxMetadataBytes, r.compact)
		case sessionUsage:
			f = r.readUsage()
		case sessionBudget:
			var nanos int64
			nanos, f = r.source.integer()
			s.Budget = (*repo.Cost)(&nanos)
		case sessionCreatedAt:
			s.CreatedAt, f = r.source.time()
		case sessionUpdatedAt:
			s.UpdatedAt, f = r.source.time()
		}
		return f
	})
	if f != nil {
		return f
	}
	return r.checkSession()
}

func (r *Reader) readUsage() *fault {
	usage := &r.session.Usage
	object := members{source: r.source, list: usageMembers}
	return object.each(func(i int) *fault {
		count, f := r.source.integer()
		switch i {
		case 0:
			usage.InputTokens = count
		case 1:
			usage.OutputTokens = count
		case 2:
			usage.Cost = repo.Cost(count)
		}
		return f
	})
}

// checkSession holds the session to the rules of a new one, and to those that a
// store keeps while it lives.
func (r *Reader) checkSession() *fault {
	s := &r.session
	normal, err := repo.NewSession{
		ID: s.ID, Namespace: s.Namespace, Actor: s.Actor, AutomationProfile: s.AutomationProfile,
		Metadata: s.Metadata, Budget: s.Budget,
	}.Normalize()
	if err != nil {
		return refused(err)
	}
	if err := s.Usage.Validate(); err != nil {
		return within("usage", refused(err))
	}
	s.Metadata = normal.Metadata
	if s.Budget != nil && s.Usage.Cost > *s.Budget {
		return &fault{Field: "budget_nanos", Reason: "is below the cost"}
	}
	// UpdatedAt may be before CreatedAt: a clock stepped back.
	return nil
}

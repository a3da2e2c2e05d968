package observed_test

import (
	"context"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/observed"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

// tracing gives each plan a trace.
type tracing struct {
	deaf
	trace string
}

func (t tracing) Trace(context.Context) string { return t.trace }

// A plan gets the observer's trace unless it was given one. What cannot be stored keeps no plan from being made.
func TestTrace(t *testing.T) {
	t.Parallel()
	below := memory.New()
	defer func() { _ = below.Close() }()
	if _, err := below.Actions().Create(t.Context(), repo.NewAction{Name: "a", ActionDefinition: repo.ActionDefinition{Reusable: true}}); err != nil {
		t.Fatal(err)
	}
	session, err := below.Sessions().Create(t.Context(), repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ observed, given, want string }{
		{"of the observer", "", "of the observer"},
		{"of the observer", "given", "given"},
		{"", "", ""},
		{strings.Repeat("x", 513), "", ""},
		{"\x00", "", ""},
		{"\xff", "", ""},
	} {
		s := observed.Store(below, tracing{trace: test.observed})
		plan, err := s.Plans().Use(t.Context(), "a", repo.UseAction{Trace: test.given})
		if err != nil || plan.Trace != test.want {
			t.Errorf("%+v: %q, %v", test, plan.Trace, err)
		}
		turn := repo.Turn{SessionID: session.ID, Action: "a", Use: repo.UseAction{Trace: test.given}}
		one, err := s.Sessions().AppendTurn(t.Context(), turn)
		if err != nil || one.Plan.Trace != test.want {
			t.Errorf("%+v: %+v, %v", test, one.Plan, err)
		}
		if turn.Use.Trace != test.given {
			t.Errorf("%+v: the caller's turn was changed", test)
		}
	}
}

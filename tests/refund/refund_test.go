package refund

import (
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/examples/refund/provider"
	"github.com/seed-df90f812/agentstore/internal/await"
)

// What a person denies is not paid, and is told.
func TestDenied(t *testing.T) {
	t.Parallel()
	s := newScene(t, &provider.Provider{HonoursKeys: true})
	s.run("call", "A-1", "2500")
	s.work()
	s.decide("deny")
	s.ended()
	s.check(1)
	if !strings.Contains(s.run("show"), " not refunded: the request is denied") {
		t.Error(s.run("show"))
	}
}

// Refunds stay within the month's budget, which has room again for what was reserved and not paid.
func TestBudget(t *testing.T) {
	t.Parallel()
	s := newScene(t, &provider.Provider{HonoursKeys: true})
	s.work()
	for _, amount := range []string{"9900", "100"} {
		s.run("call", "order of "+amount, amount)
		s.decide("approve")
		s.ended()
	}
	s.check(2, "order of 9900")
	if shown := s.run("show"); !strings.Contains(shown, " not refunded: the month's budget is used up") {
		t.Error(shown)
	}
	if s.run("decide", "approve") != "" {
		t.Error("something waits for a decision")
	}
}

// Whatever a provider does, it pays once. What it has lost is sent again, if it honours keys, or when a person has looked.
func TestTroubles(t *testing.T) {
	t.Parallel()
	for name, honours := range map[string]bool{"Keys": true, "NoKeys": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, &provider.Provider{HonoursKeys: honours})
			calls := map[string]string{}
			for _, order := range []string{"fails", "closes", "loses", "late", "refused", "works"} {
				calls[order] = s.run("call", order, "500")
			}
			s.work()
			decided := 0
			await.For(t, "all were asked for", func() bool {
				decided += strings.Count(s.run("decide", "approve"), "Refund ")
				return decided == len(calls)
			})
			if !honours {
				await.For(t, "an outcome is unknown", func() bool { return strings.Contains(s.run("show"), "effect "+calls["loses"]+" unknown") })
				s.run("resolve", calls["loses"], "lost")
			}
			s.ended()
			s.check(len(calls), "fails", "closes", "loses", "late", "works")
		})
	}
}

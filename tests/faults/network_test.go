package faults

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// The network between the library and the server fails.
var networks = []fault{
	{name: "network cut", times: 20, short: 1, proxied: true, lasts: true, strike: func(t *testing.T, s *scene) func() {
		s.proxy.Stop()
		return func() {
			if err := s.proxy.Start(); err != nil {
				t.Fatal(err)
			}
		}
	}},
	// Nothing arrives any more, and the connections do not end either. Calls end when
	// their contexts do.
	{
		name: "network half-open", times: 20, short: 1, proxied: true,
		strike: func(t *testing.T, s *scene) func() {
			heal := s.proxy.poison(t, toxic{Type: "timeout", Stream: "upstream"}, toxic{Type: "timeout", Stream: "downstream"})
			s.giveUpUntil(t, "a call ends without an answer", func() bool { return s.seen("") > 0 })
			return heal
		},
	},
	{
		name: "network slow", times: 20, short: 1, proxied: true, unnoticed: true,
		strike: func(t *testing.T, s *scene) func() {
			heal := s.proxy.poison(t,
				toxic{Type: "latency", Stream: "downstream", Attributes: map[string]any{"latency": 100, "jitter": 50}},
				toxic{Type: "bandwidth", Stream: "upstream", Attributes: map[string]any{"rate": 200}}) // KB/s
			begun := time.Now()
			if id := repo.NewID(); !s.deliver(t.Context(), 0, s.ids[0], id) {
				t.Error("not delivered")
			}
			if took := time.Since(begun); took < 50*time.Millisecond { // short: it took longer, and the slower the better
				t.Errorf("an append took only %v: the network was not slow", took)
			}
			return heal
		},
	},
	{
		name: "network limited to some bytes", times: 20, short: 2, proxied: true, lasts: true,
		strike: func(t *testing.T, s *scene) func() {
			direction := []string{"upstream", "downstream"}[s.round%2]
			return s.proxy.poison(t, toxic{Type: "limit_data", Stream: direction, Attributes: map[string]any{"bytes": rand.N(1000)}})
		},
	},
}

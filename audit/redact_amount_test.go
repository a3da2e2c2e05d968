//go:build !race

package audit

import (
	"math/rand/v2"
	"os"
	"testing"
)

// All pairs of hostile words, and triples: two words repeated are the same in either order.
func TestAmountRedactHostile(t *testing.T) {
	pairs, triples, large := 4<<10, 200, 8
	full := os.Getenv("AGENTSTORE_TEST_FULL") != "" // see make test/full
	if full {
		pairs, triples, large = 64<<10, 20_000, 2000
	}
	r, random := NewRedactor(RedactorOptions{}), rand.New(rand.NewPCG(1, 1))
	some := func() string { return hostileWords[random.IntN(len(hostileWords))] }
	for i, first := range hostileWords {
		for _, second := range hostileWords[i:] {
			checkLooks(t, r, pairs, first, second)
			for _, third := range hostileWords[i:] {
				if full {
					checkLooks(t, r, 4<<10, first, second, third)
				}
			}
		}
	}
	for i := range triples {
		checkLooks(t, r, 64<<10, some(), some(), some())
		if i < large {
			checkLooks(t, r, 1<<20, some(), some(), some())
		}
	}
}

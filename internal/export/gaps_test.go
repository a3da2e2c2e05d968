package export_test

import (
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/export"
	"github.com/seed-df90f812/agentstore/repo"
)

// A fork has left out some of the messages that it has of others. Its own follow those that it has, and no others.
func TestFollowsBesideGaps(t *testing.T) {
	const base = 12
	has := map[int64]bool{-1: true}
	var inherited []repo.Message
	last := int64(-1)
	for _, sequence := range []int64{1, 2, 5, 7, 8, 9, 11} {
		message := messageAt(sequence)
		message.Follows, last = last, sequence
		inherited = append(inherited, message)
		has[sequence] = true
	}
	for follows := int64(-2); follows < base; follows++ {
		own := messageAt(base)
		own.Follows = follows
		text := encodeAll(t, content{session: smallSession(base + 1), history: export.History{Base: base}, messages: append(inherited[:7:7], own)})
		switch _, err := decode(strings.NewReader(text)); {
		case !has[follows]:
			checkImportError(t, err, "messages[7].follows", "is not")
		case err != nil:
			t.Errorf("after %d: %v", follows, err)
		}
	}
}

package commit

import (
	"testing"

	"github.com/seed-df90f812/agentstore/repo/postgres/internal/scheduler"
)

type nothing struct{ Progress }

func (*nothing) Size() scheduler.Size { return scheduler.Size{} }

// BenchmarkNoObserver is what a grouped write costs more because there could be an observer. Within
// b.Loop nothing would be inlined.
func BenchmarkNoObserver(b *testing.B) {
	one, calls, ctx := &nothing{}, 0, b.Context()
	operation := func() error {
		calls++
		return nil
	}
	b.Run("without", func(b *testing.B) {
		for range b.N {
			_ = directly(operation)
		}
	})
	b.Run("nil", func(b *testing.B) {
		for range b.N {
			_ = Observed(ctx, nil, "append", one, operation)
		}
	})
}

func directly(operation func() error) error { return operation() }

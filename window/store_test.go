package window_test

import (
	"testing"

	"github.com/seed-df90f812/agentstore/repo/memory"
	"github.com/seed-df90f812/agentstore/window/windowtest"
)

// Guarantee: History: A prompt has what stays, the newest summary, and the newest messages that fit.
func TestWindow(t *testing.T) {
	t.Parallel()
	store := memory.New()
	t.Run("store", func(t *testing.T) { windowtest.Run(t, store) })
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

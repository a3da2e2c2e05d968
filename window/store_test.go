package window_test

import (
	"os"
	"strconv"
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

// Guarantee: History: No provider refuses a prompt because of what was cut off.
func TestPromptsAreAccepted(t *testing.T) {
	t.Parallel()
	count := 2000
	if os.Getenv("AGENTSTORE_TEST_FULL") != "" { // see make test/full
		count = 1_000_000
	}
	if given, err := strconv.Atoi(os.Getenv("AGENTSTORE_TEST_PROMPTS")); err == nil {
		count = given
	}
	store := memory.New()
	windowtest.Prompts(t, store, count)
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

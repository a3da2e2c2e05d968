package wrongstore

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// faultEnv names the fault of the store that this process tests. Without it the
// process starts the others.
const faultEnv = "AGENTSTORE_TEST_FAULT"

func TestMain(m *testing.M) {
	if os.Getenv(faultEnv) != "" {
		os.Exit(m.Run()) // a failing suite may leave goroutines behind
	}
	goleak.VerifyTestMain(m)
}

package wrongstore

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// faultEnv names the fault of the store that this process tests. Without it the
// process is the one that starts the others.
const faultEnv = "AGENTSTORE_TEST_FAULT"

func TestMain(m *testing.M) {
	if os.Getenv(faultEnv) != "" {
		os.Exit(m.Run()) // a suite that fails may leave anything behind
	}
	goleak.VerifyTestMain(m)
}

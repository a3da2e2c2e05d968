// Package refund tests examples/refund: its processes are killed, and its payment provider fails.
package refund

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// The test binary is also that of the naive worker.
func TestMain(m *testing.M) {
	if text := os.Getenv(naiveVariable); text != "" {
		var task naiveTask
		err := json.Unmarshal([]byte(text), &task)
		if err == nil {
			err = task.work()
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := pgtest.Main(m)
	_ = os.RemoveAll(directory)
	os.Exit(code)
}

var directory string

// binary builds the example once.
var binary = sync.OnceValues(func() (string, error) {
	var err error
	if directory, err = os.MkdirTemp("", "agentstore-refund-"); err != nil {
		return "", err
	}
	path := filepath.Join(directory, "refund")
	output, err := exec.Command("go", "build", "-o", path, "github.com/seed-df90f812/agentstore/examples/refund").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the example: %w: %s", err, output)
	}
	return path, nil
})

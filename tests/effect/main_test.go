// Package effect tests package effect on PostgreSQL, with a remote and with workers that are killed, each a process of its own.
package effect

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// The test binary is also the binary of the remote and of the workers.
func TestMain(m *testing.M) {
	for variable, run := range map[string]func(task string) error{remoteVariable: taskOf(runRemote), workerVariable: taskOf(runWorker)} {
		if task := os.Getenv(variable); task != "" {
			if err := run(task); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(pgtest.Main(m))
}

// taskOf is the main function of a process that has a task as JSON.
func taskOf[Task any](run func(Task) error) func(text string) error {
	return func(text string) error {
		var task Task
		if err := json.Unmarshal([]byte(text), &task); err != nil {
			return err
		}
		return run(task)
	}
}

// Package migrate tests the schema package and the migrate command against
// PostgreSQL: in process, and as many real processes at once.
package migrate

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if os.Getenv(naiveVariable) != "" {
		os.Exit(naiveMigrator())
	}
	code := m.Run()
	removeBinary()
	os.Exit(code)
}

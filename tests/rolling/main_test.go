// Package rolling tests upgrades that replace one instance after another: the library
// of an older commit works while a newer one migrates the database, and afterwards.
package rolling

import (
	"os"
	"testing"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func TestMain(m *testing.M) {
	code := pgtest.Main(m)
	removeClients()
	os.Exit(code)
}

// Package tls tests sslmode=verify-full on a server with a certificate chain as real
// authorities issue it: root, intermediate, leaf.
package tls

import (
	"os"
	"testing"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

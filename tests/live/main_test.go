// Package live tests package live with a real browser, and the examples that are built on it.
package live

import (
	"os"
	"testing"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func TestMain(m *testing.M) {
	zerolog.SetGlobalLevel(zerolog.Disabled) // the proxy's own log
	// See tests/faults: the proxy leaves goroutines behind.
	code := pgtest.Main(m,
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"))
	if chatDirectory != "" {
		_ = os.RemoveAll(chatDirectory)
	}
	os.Exit(code)
}

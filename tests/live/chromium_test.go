package live

import (
	"testing"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/tests/browser"
)

// startChromium shows a page in a browser of its own, until the test's end.
func startChromium(t *testing.T, url string) {
	t.Helper()
	page, err := browser.Start(await.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if said := page.Said(); t.Failed() && len(said) > 0 {
			t.Logf("the browser complained: %q", said)
		}
		if err := page.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := page.Open(await.Context(t), url); err != nil {
		t.Fatal(err)
	}
}

package live

import (
	"testing"

	"github.com/seed-df90f812/agentstore/tests/browser"
)

// startChromium shows a page in a browser of its own, until the test's end.
func startChromium(t *testing.T, url string) {
	t.Helper()
	page, err := browser.Start(t.Context())
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
	if err := page.Open(t.Context(), url); err != nil {
		t.Fatal(err)
	}
}

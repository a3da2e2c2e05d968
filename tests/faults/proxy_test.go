package faults

import (
	"context"
	"encoding/json"
	"net"
	"net/url"
	"strings"
	"testing"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// proxy is a network between the library and the server that can be made to fail.
type proxy struct{ *toxiproxy.Proxy }

// newProxy starts a proxy for a server's port. It ends with the test.
func newProxy(t *testing.T, port string) proxy {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := proxy{toxiproxy.NewProxy(server, "postgresql", "127.0.0.1:0", net.JoinHostPort("127.0.0.1", port))}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

// through returns the database's URL through the proxy.
func (p proxy) through(t *testing.T, databaseURL string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = p.Listen
	return u.String()
}

// toxic is one way in which the network can fail.
type toxic struct {
	Name       string         `json:"name"`
	Type       string         `json:"type"`
	Stream     string         `json:"stream"`
	Attributes map[string]any `json:"attributes"`
}

// poison makes the network fail until the returned function is called.
func (p proxy) poison(t *testing.T, toxics ...toxic) (heal func()) {
	t.Helper()
	for i := range toxics {
		toxics[i].Name = toxics[i].Type + " " + toxics[i].Stream
		encoded, err := json.Marshal(toxics[i])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Toxics.AddToxicJson(strings.NewReader(string(encoded))); err != nil {
			t.Fatal(err)
		}
	}
	return func() { p.Toxics.ResetToxics(context.Background()) }
}

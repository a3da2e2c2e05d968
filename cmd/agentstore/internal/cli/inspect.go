package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/inspect"
	"github.com/seed-df90f812/agentstore/live"
	"github.com/seed-df90f812/agentstore/repo"
)

func inspectCommand(world invocation) *urfave.Command {
	var listen string
	var access inspect.Access
	var remote bool
	return leaf{
		name: "inspect", summary: "show the database in a browser",
		flags: []urfave.Flag{
			&urfave.StringFlag{
				Name: "listen", Usage: "the `address` to listen at", Value: "127.0.0.1:8080", Destination: &listen, Validator: notEmpty("listen"),
				OnlyOnce: true,
			},
			boolFlag(&remote, "remote", "allow an address that other machines reach: put TLS in front of it"),
			stringFlag(&access.Namespace, "namespace", "show this `namespace` only"),
			stringFlag(&access.Viewer, "viewer", "the `name` for the audit trail (otherwise: USER in the environment)"),
			boolFlag(&access.Contents, "contents", "show messages' contents, values and details; the audit trail records each page"),
			boolFlag(&access.Actions, "actions", "allow viewers to cancel and retry plans, release leases, hold sessions and decide approvals"),
		},
		more: `It prints the address to open, which has a token, and runs until it is interrupted (Ctrl-C).
The address is a name under localhost, which browsers resolve to this machine.
It uses at most 6 connections, and ends statements after 5 seconds.

Examples:
  agentstore inspect
  agentstore inspect --contents --viewer ada@example.com --listen 127.0.0.1:9000`,
		before: func(invocation *invocation) error {
			host, _, err := net.SplitHostPort(listen)
			if err != nil {
				return usageError{text: "--listen is not an address such as 127.0.0.1:8080"}
			}
			if ip := net.ParseIP(host); host != "localhost" && !ip.IsLoopback() && !remote {
				return usageError{text: "--listen: other machines reach this address. If they are meant to, add --remote"}
			}
			access.Viewer = cmp.Or(access.Viewer, invocation.env("USER"), "agentstore inspect")
			access.AllNamespaces = access.Namespace == ""
			invocation.open = func(ctx context.Context, databaseURL, schema string) (*agentstore.Store, error) {
				return agentstore.Open(ctx, databaseURL, agentstore.Options{Schema: schema, MaxConns: 6, StatementTimeout: 5 * time.Second})
			}
			return nil
		},
		onStore: func(ctx context.Context, invocation invocation, store *agentstore.Store) error {
			return serveInspector(ctx, invocation, store, listen, access)
		},
	}.command(world)
}

// serveInspector serves the pages until ctx ends.
func serveInspector(ctx context.Context, invocation invocation, store *agentstore.Store, listen string, access inspect.Access) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	door := newDoor(listener.Addr().(*net.TCPAddr))
	pages, err := inspect.Handler(store, inspect.Options{
		Authorize: func(r *http.Request) (inspect.Access, error) { return access, door.check(r) },
		Health: func(ctx context.Context) (map[string]any, error) {
			health, err := store.Health(ctx)
			return map[string]any{"Database": health, "Process": store.Stats()}, err
		},
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	server := &http.Server{Handler: door.open(pages), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	fmt.Fprintln(invocation.stdout, door.address())
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = pages.Shutdown(soon)
	if err := server.Shutdown(soon); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return server.Close() // ends remaining connections, such as one that a browser opened ahead of its next request
}

// door lets in a browser with the token in the address, and from then on with the cookie, which is
// another secret. A browser sends a host's cookies to each of its ports, so that a server on another
// port of 127.0.0.1 would be given them: for this machine alone, the door has a name of its own.
type door struct {
	token, cookie, session string
	// name is the host's. Empty: any, since other machines reach it.
	name string
	// at is the host and the port of the address.
	at string
}

func newDoor(to *net.TCPAddr) door {
	d := door{token: rand.Text(), session: rand.Text(), cookie: fmt.Sprintf("agentstore_inspect_%d", to.Port), at: to.String()}
	if to.IP.IsLoopback() {
		d.name = strings.ToLower(rand.Text()) + ".localhost"
		d.at = net.JoinHostPort(d.name, strconv.Itoa(to.Port))
	}
	return d
}

// address is what lets a browser in.
func (d door) address() string { return fmt.Sprintf("http://%s/?token=%s", d.at, d.token) }

func equal(given, secret string) bool {
	return subtle.ConstantTimeCompare([]byte(given), []byte(secret)) == 1
}

// isHere reports whether a request is to the door's own name. Its port may be another one, such as a tunnel's.
func (d door) isHere(r *http.Request) bool {
	name, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		name = r.Host
	}
	return d.name == "" || strings.EqualFold(name, d.name)
}

func (d door) check(r *http.Request) error {
	if cookie, err := r.Cookie(d.cookie); err == nil && equal(cookie.Value, d.session) && d.isHere(r) {
		return nil
	}
	return &live.StatusError{Status: http.StatusUnauthorized, Public: "Open the address that agentstore inspect has printed.", Err: repo.ErrPermission}
}

func (d door) open(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || !equal(r.URL.Query().Get("token"), d.token) || !d.isHere(r) {
			pages.ServeHTTP(w, r)
			return
		}
		//nolint:gosec // not Secure, because this is plain HTTP
		http.SetCookie(w, &http.Cookie{Name: d.cookie, Value: d.session, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, "/", http.StatusSeeOther)
	})
}

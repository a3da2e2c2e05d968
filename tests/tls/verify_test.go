package tls

import (
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// clientFile creates a file for a client.
func clientFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// startTLS starts a server that has the certificates and refuses connections without
// TLS.
func startTLS(t *testing.T, certificates, key string) *pgtest.Cluster {
	t.Helper()
	server := pgtest.NewCluster(t)
	certFile, keyFile := server.WriteFile(t, "server.crt", certificates), server.WriteFile(t, "server.key", key)
	rules := server.WriteFile(t, "hba.conf", "hostssl all all 127.0.0.1/32 scram-sha-256\nlocal all all scram-sha-256\n")
	server.Start(t, "ssl=on", "ssl_cert_file="+certFile, "ssl_key_file="+keyFile, "hba_file="+rules)
	return server
}

// at returns a URL of the server with a host name and these parameters.
func at(server *pgtest.Cluster, host string, parameters url.Values) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("postgres", server.Password),
		Host: net.JoinHostPort(host, server.Port), Path: "/postgres", RawQuery: parameters.Encode(),
	}
	return u.String()
}

func verifyFull(rootFile string) url.Values {
	return url.Values{"sslmode": {"verify-full"}, "sslrootcert": {rootFile}}
}

// Guarantee: Servers and roles: `sslmode=verify-full` accepts only certificates of the given root and host.
func TestVerifyFull(t *testing.T) {
	t.Parallel()
	root := newAuthority(t, "root")
	intermediate := root.intermediate(t, "intermediate")
	leaf, key := intermediate.server(t, "localhost")
	server := startTLS(t, leaf+intermediate.pem(), key)

	ours := verifyFull(clientFile(t, "root.pem", root.pem()))
	store := pgtest.OpenStore(t, at(server, "localhost", ours), agentstore.Options{Migrate: true})
	// The connection uses TLS, and so does the migrator's.
	var encrypted bool
	if err := store.Pool().QueryRow(t.Context(), "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").Scan(&encrypted); err != nil || !encrypted {
		t.Fatalf("encrypted %t, %v", encrypted, err)
	}
	session := pgtest.NewSession(t, store)
	if _, err := store.Sessions().Append(t.Context(), session, repo.NewMessage{Role: repo.RoleUser, Content: "x"}); err != nil {
		t.Fatal(err)
	}

	// The same authority in another file means the same: one pool.
	again := pgtest.OpenStore(t, at(server, "localhost", verifyFull(clientFile(t, "copy.pem", root.pem()))), agentstore.Options{})
	if again.Pool() != store.Pool() {
		t.Error("two files with the same root gave two pools")
	}

	other := verifyFull(clientFile(t, "other.pem", newAuthority(t, "root").pem()))
	refused(t, "the root of another authority of the same name", at(server, "localhost", other), server.Password, repo.ErrUnavailable, "unknown authority")
	refused(t, "another host name", at(server, "127.0.0.1", ours), server.Password, repo.ErrUnavailable, "certificate")
	refused(t, "no root certificate at the client", at(server, "localhost", verifyFull("/nowhere/root.pem")), server.Password, repo.ErrInvalid, "database URL")
	// The server refuses clients that do not request TLS.
	refused(t, "no TLS at the client", at(server, "localhost", url.Values{"sslmode": {"disable"}}), server.Password, repo.ErrPermission, "no pg_hba.conf entry")
}

// A server that sends only its leaf certificate cannot be verified.
func TestVerifyFullWithoutTheIntermediate(t *testing.T) {
	t.Parallel()
	root := newAuthority(t, "root")
	leaf, key := root.intermediate(t, "intermediate").server(t, "localhost")
	server := startTLS(t, leaf, key)
	ours := verifyFull(clientFile(t, "root.pem", root.pem()))
	refused(t, "no intermediate", at(server, "localhost", ours), server.Password, repo.ErrUnavailable, "unknown authority")
}

// A password is never sent to a server that does not use TLS.
func TestVerifyFullOfServerWithoutTLS(t *testing.T) {
	t.Parallel()
	server := pgtest.NewCluster(t)
	server.Start(t)
	ours := verifyFull(clientFile(t, "root.pem", newAuthority(t, "root").pem()))
	refused(t, "no TLS at the server", at(server, "localhost", ours), server.Password, repo.ErrUnavailable, "refused TLS")
}

// refused opens a store, which must fail soon, with an error that contains a text but
// not the password.
func refused(t *testing.T, what, databaseURL, password string, is error, says string) {
	t.Helper()
	ctx := await.Context(t)
	store, err := agentstore.Open(ctx, databaseURL, agentstore.Options{})
	if err == nil {
		_ = store.Close()
		t.Errorf("%s: it was opened", what)
		return
	}
	if !errors.Is(err, is) || !strings.Contains(err.Error(), says) || ctx.Err() != nil {
		t.Errorf("%s: %v", what, err)
	}
	if strings.Contains(err.Error(), password) {
		t.Errorf("%s: the password is in the error", what)
	}
}

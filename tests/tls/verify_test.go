package tls

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// clientFile makes a file of a client's own.
func clientFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// startTLS starts a server that shows the certificates and answers nobody
// without TLS.
func startTLS(t *testing.T, certificates, key string) *pgtest.Cluster {
	t.Helper()
	server := pgtest.NewCluster(t)
	certFile, keyFile := server.WriteFile(t, "server.crt", certificates), server.WriteFile(t, "server.key", key)
	rules := server.WriteFile(t, "hba.conf", "hostssl all all 127.0.0.1/32 scram-sha-256\nlocal all all scram-sha-256\n")
	server.StartTLS(t, "ssl=on", "ssl_cert_file="+certFile, "ssl_key_file="+keyFile, "hba_file="+rules)
	return server
}

// at is a URL of the server at a host name, with these parameters.
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

func TestVerifyFull(t *testing.T) {
	t.Parallel()
	root := newAuthority(t, "root")
	intermediate := root.intermediate(t, "intermediate")
	leaf, key := intermediate.server(t, "localhost")
	server := startTLS(t, leaf+intermediate.pem(), key)

	ours := verifyFull(clientFile(t, "root.pem", root.pem()))
	store, err := agentstore.Open(t.Context(), at(server, "localhost", ours), agentstore.Options{Migrate: true})
	if err != nil {
		t.Fatalf("the right chain: %v", err)
	}
	defer func() {
		pgtest.CheckReturned(t, store.Pool())
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	// It is TLS that carried it, and the migrator's connection too.
	var encrypted bool
	if err := store.Pool().QueryRow(t.Context(), "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").Scan(&encrypted); err != nil || !encrypted {
		t.Fatalf("encrypted %t, %v", encrypted, err)
	}
	session, err := store.Sessions().Create(t.Context(), repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Sessions().Append(t.Context(), session.ID, repo.NewMessage{Role: repo.RoleUser, Content: "x"}); err != nil {
		t.Fatal(err)
	}

	// The same authority in another file is the same demand: one pool.
	again, err := agentstore.Open(t.Context(), at(server, "localhost", verifyFull(clientFile(t, "copy.pem", root.pem()))))
	if err != nil {
		t.Fatal(err)
	}
	if again.Pool() != store.Pool() {
		t.Error("two files with one root, two pools")
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}

	other := verifyFull(clientFile(t, "other.pem", newAuthority(t, "root").pem()))
	refused(t, "the root of another authority of the same name", at(server, "localhost", other), server.Password, repo.ErrUnavailable, "unknown authority")
	refused(t, "another host name", at(server, "127.0.0.1", ours), server.Password, repo.ErrUnavailable, "certificate")
	refused(t, "no root certificate at the client", at(server, "localhost", verifyFull("/nowhere/root.pem")), server.Password, repo.ErrInvalid, "database URL")
	// The server's own rule, for who asks for no TLS at all.
	refused(t, "no TLS at the client", at(server, "localhost", url.Values{"sslmode": {"disable"}}), server.Password, repo.ErrPermission, "no pg_hba.conf entry")
}

// A server that shows its leaf alone cannot be traced to the root.
func TestVerifyFullWithoutTheIntermediate(t *testing.T) {
	t.Parallel()
	root := newAuthority(t, "root")
	leaf, key := root.intermediate(t, "intermediate").server(t, "localhost")
	server := startTLS(t, leaf, key)
	ours := verifyFull(clientFile(t, "root.pem", root.pem()))
	refused(t, "no intermediate", at(server, "localhost", ours), server.Password, repo.ErrUnavailable, "unknown authority")
}

// A password is never sent to a server that does not speak TLS.
func TestVerifyFullOfServerWithoutTLS(t *testing.T) {
	t.Parallel()
	server := pgtest.NewCluster(t)
	server.Start(t)
	ours := verifyFull(clientFile(t, "root.pem", newAuthority(t, "root").pem()))
	refused(t, "no TLS at the server", at(server, "localhost", ours), server.Password, repo.ErrUnavailable, "refused TLS")
}

// refused opens a store, which must fail soon, with this error that says so
// much, and without the password.
func refused(t *testing.T, what, databaseURL, password string, is error, says string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	store, err := agentstore.Open(ctx, databaseURL)
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

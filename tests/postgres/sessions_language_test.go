package postgres

import (
	"errors"
	"net"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/internal/pgsettings"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// played is a fake server that accepts all logins and answers each statement with an
// error, after which it ends the connection if the error is of that kind.
func played(t *testing.T, answer *pgproto3.ErrorResponse) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			play(conn, answer)
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-ended
	})
	return "postgres://app@" + listener.Addr().String() + "/db?sslmode=disable&default_query_exec_mode=simple_protocol"
}

func play(conn net.Conn, answer *pgproto3.ErrorResponse) {
	defer func() { _ = conn.Close() }()
	backend := pgproto3.NewBackend(conn, conn)
	if _, err := backend.ReceiveStartupMessage(); err != nil {
		return
	}
	backend.Send(&pgproto3.AuthenticationOk{})
	backend.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	backend.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	for backend.Flush() == nil {
		if message, err := backend.Receive(); err != nil {
			return
		} else if _, ok := message.(*pgproto3.Query); !ok {
			return
		}
		backend.Send(answer)
		if answer.SeverityUnlocalized != "ERROR" && answer.Severity != "ERROR" {
			_ = backend.Flush()
			return
		}
		backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	}
}

// After an error that ends the connection, the outcome of a write is unknown,
// whatever the server's language, and whether or not the message also has the
// severity in English.
func TestFatalInAnyLanguage(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer *pgproto3.ErrorResponse
		want   error
	}{
		"English":                      {&pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "57P01"}, repo.ErrUnknownOutcome},
		"English, of a pooler":         {&pgproto3.ErrorResponse{Severity: "FATAL", Code: "08P01"}, repo.ErrUnknownOutcome},
		"Russian":                      {&pgproto3.ErrorResponse{Severity: "ВАЖНО", SeverityUnlocalized: "FATAL", Code: "57P05"}, repo.ErrUnknownOutcome},
		"Russian, a crash":             {&pgproto3.ErrorResponse{Severity: "ПАНИКА", SeverityUnlocalized: "PANIC", Code: "XX000"}, repo.ErrUnknownOutcome},
		"Russian alone":                {&pgproto3.ErrorResponse{Severity: "ВАЖНО", Code: "57P01"}, repo.ErrUnknownOutcome},
		"an error, in Russian":         {&pgproto3.ErrorResponse{Severity: "ОШИБКА", SeverityUnlocalized: "ERROR", Code: "53100"}, repo.ErrUnavailable},
		"a statement that is too long": {&pgproto3.ErrorResponse{Severity: "ОШИБКА", SeverityUnlocalized: "ERROR", Code: "57014"}, repo.ErrUnavailable},
		"an odd code":                  {&pgproto3.ErrorResponse{Severity: "ERROR", Code: "2"}, repo.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := postgres.New(pgsettings.Checked{Pool: pgtest.NewPool(t, played(t, test.answer))}, postgres.Options{})
			_, err := store.Sessions().Create(t.Context(), repo.NewSession{})
			for _, sentinel := range repo.Sentinels() {
				if errors.Is(err, sentinel) != errors.Is(test.want, sentinel) {
					t.Errorf("%v is %q: %t", err, sentinel, errors.Is(err, sentinel))
				}
			}
		})
	}
}

// The same with a real server in Russian, if its messages are installed. (C.UTF-8
// takes the language from LANGUAGE and needs no other locale.)
func TestServerOfAnotherLanguage(t *testing.T) {
	t.Parallel()
	server := pgtest.NewCluster(t)
	server.Environment = []string{"LANGUAGE=ru"}
	server.Start(t, "lc_messages=C.UTF-8")
	store := pgtest.OpenStore(t, server.URL("postgres"), agentstore.Options{MaxConns: 4, Migrate: true})
	_, err := store.Pool().Exec(t.Context(), "nonsense")
	if err == nil || len(err.Error()) < 6 || err.Error()[:5] == "ERROR" {
		t.Logf("this server has only English messages: %v", err)
	}
	id := pgtest.NewSession(t, store)
	ctx := await.Context(t)
	err = pgx.BeginFunc(ctx, store.Pool(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT FROM sessions FOR UPDATE"); err != nil {
			return err
		}
		updated := make(chan error, 1)
		go func() {
			// Not a usage, which is retried under its id.
			_, err := store.Sessions().Update(ctx, id, repo.SessionUpdate{Actor: new("a")})
			updated <- err
		}()
		// Not pg_stat_activity, of which a transaction sees only its first state.
		const waiting = "SELECT coalesce(max(pid), 0) FROM pg_locks WHERE NOT granted AND pid <> ALL ($1)"
		ended := 0
		await.For(t, "the update waits", func() bool { ended = pgtest.Value[int](t, tx, waiting, []int{0}); return ended != 0 })
		pgtest.Exec(t, tx, "SELECT pg_terminate_backend($1)", ended)
		await.For(t, "the update ends", func() bool {
			select {
			case err := <-updated:
				if !errors.Is(err, repo.ErrUnknownOutcome) {
					t.Errorf("a write whose connection the server ended: %v, want %v", err, repo.ErrUnknownOutcome)
				}
				t.Logf("the server said: %v", err)
				return true
			default:
			}
			again := pgtest.Value[int](t, tx, waiting, []int{ended}) != 0
			if again {
				t.Error("a write whose connection the server ended was sent again")
			}
			return again
		})
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	// The connection is not used again.
	for range 8 {
		if _, err := store.Sessions().AddUsage(t.Context(), id, repo.NewUsage{InputTokens: 1}); err != nil {
			t.Errorf("after that: %v", err)
		}
	}
}

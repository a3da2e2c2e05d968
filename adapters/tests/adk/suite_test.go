// Package adk tests the adapter of the same name on PostgreSQL, beside the database service
// of the framework itself.
package adk

import (
	"context"
	"database/sql"
	"os"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver of theirs
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/session/database"
	"google.golang.org/adk/v2/session/sessiontestsuite"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/adapters/adk"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// The framework's own suite passes.
func TestSuite(t *testing.T) {
	t.Parallel()
	options := sessiontestsuite.SuiteOptions{SupportsUserProvidedSessionID: true}
	sessiontestsuite.RunServiceTests(t, options, func(t *testing.T) session.Service { return ours(t) })
}

func ours(t *testing.T) session.Service {
	t.Helper()
	return adk.NewSessionService(pgtest.NewStore(t, agentstore.Options{}))
}

// theirs returns the framework's own database service, on a database of its own.
func theirs(t *testing.T) session.Service {
	t.Helper()
	db, err := sql.Open("pgx", pgtest.NewEmptyDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(10)
	service, err := database.NewSessionService(postgres.New(postgres.Config{Conn: db}), &gorm.Config{Logger: logger.Discard})
	if err == nil {
		err = database.AutoMigrate(service)
	}
	if err != nil {
		t.Fatal(err)
	}
	return service
}

func create(t *testing.T, service session.Service) session.Session {
	t.Helper()
	created, err := service.Create(t.Context(), &session.CreateRequest{AppName: "shop", UserID: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	return created.Session
}

func get(ctx context.Context, service session.Service, of session.Session) (session.Session, error) {
	got, err := service.Get(ctx, &session.GetRequest{AppName: of.AppName(), UserID: of.UserID(), SessionID: of.ID()})
	if err != nil {
		return nil, err
	}
	return got.Session, nil
}

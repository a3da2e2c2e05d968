package schema

import (
	"embed"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var embedded embed.FS

// Migration is one version of the schema.
type Migration struct {
	Version int64
	Name    string // file name without .sql, for example 0001_sessions
	// OldestLibrary is the oldest library that works on the schema with this
	// version applied, identified by the newest version that it knows: from 1 to
	// Version. The file declares it; without a declaration it is Version.
	OldestLibrary int64

	file string
}

// declaration matches the line above a file's Up that declares OldestLibrary, such as
// "-- oldest library: 4".
var declaration = regexp.MustCompile(`(?m)^\s*-- oldest library:[ \t]*(.*?)\s*$`)

// Latest returns the newest version that this binary has.
func Latest() int64 {
	return latestOf(embeddedMigrations())
}

func latestOf(migrations []Migration) int64 { return migrations[len(migrations)-1].Version }

// List returns the embedded migrations, oldest first. It needs no database.
func List() []Migration { return slices.Clone(embeddedMigrations()) }

// embeddedMigrations is shared; callers must not change it.
var embeddedMigrations = sync.OnceValue(func() []Migration {
	migrations, err := readMigrations(embeddedFS())
	if err != nil {
		panic(err) // The embedded files are fixed at build time: tests read them.
	}
	return migrations
})

func embeddedFS() fs.FS {
	sub, err := fs.Sub(embedded, "migrations")
	if err != nil {
		panic(err)
	}
	return sub
}

// readMigrations lists the *.sql files at the root of fsys by version.
func readMigrations(fsys fs.FS) ([]Migration, error) {
	files, err := fs.Glob(fsys, "*.sql")
	if err != nil {
		return nil, invalid("list migrations: %w", err)
	}
	migrations := make([]Migration, 0, len(files))
	for _, file := range files {
		name := strings.TrimSuffix(path.Base(file), ".sql")
		version, err := goose.NumericComponent(file)
		if err != nil {
			return nil, invalid("migration file %q is not named <version>_<name>.sql", file)
		}
		oldest, err := readDeclaration(fsys, file, version)
		if err != nil {
			return nil, err
		}
		migrations = append(migrations, Migration{Version: version, Name: name, OldestLibrary: oldest, file: file})
	}
	slices.SortFunc(migrations, func(a, b Migration) int { return int(a.Version - b.Version) })
	for i := 1; i < len(migrations); i++ {
		if migrations[i].Version == migrations[i-1].Version {
			return nil, invalid("%s and %s have the same version", migrations[i-1].Name, migrations[i].Name)
		}
	}
	if len(migrations) == 0 {
		return nil, invalid("there are no migration files")
	}
	return migrations, nil
}

// readDeclaration returns the oldest library that a file declares.
func readDeclaration(fsys fs.FS, file string, version int64) (int64, error) {
	content, err := fs.ReadFile(fsys, file)
	if err != nil {
		return 0, invalid("read migration %q: %w", file, err)
	}
	found := declaration.FindAllSubmatch(content, -1)
	if len(found) == 0 {
		return version, nil
	}
	oldest, err := strconv.ParseInt(string(found[0][1]), 10, 64)
	if err != nil || oldest < 1 || oldest > version || len(found) > 1 {
		return 0, invalid("migration file %q does not declare one oldest library from 1 to %d", file, version)
	}
	return oldest, nil
}

package schema

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

//go:embed migrations/*.sql
var embedded embed.FS

// Migration is one version of the schema, as the binary knows it.
type Migration struct {
	Version int64
	Name    string // file name without .sql, for example 0001_sessions

	file string
}

// Latest returns the newest version that this binary holds.
func Latest() int64 {
	migrations := List()
	return migrations[len(migrations)-1].Version
}

// List returns the embedded migrations, oldest first. It needs no database.
func List() []Migration {
	migrations, err := readMigrations(embeddedFS())
	if err != nil {
		panic(err) // The embedded files are fixed at build time: tests read them.
	}
	return migrations
}

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
		return nil, fmt.Errorf("schema: list migrations: %w", err)
	}
	migrations := make([]Migration, 0, len(files))
	for _, file := range files {
		name := strings.TrimSuffix(path.Base(file), ".sql")
		digits, _, found := strings.Cut(name, "_")
		version, err := strconv.ParseInt(digits, 10, 64)
		if !found || err != nil || version < 1 {
			return nil, fmt.Errorf("schema: migration file %q is not named <version>_<name>.sql", file)
		}
		migrations = append(migrations, Migration{Version: version, Name: name, file: file})
	}
	slices.SortFunc(migrations, func(a, b Migration) int { return int(a.Version - b.Version) })
	for i := 1; i < len(migrations); i++ {
		if migrations[i].Version == migrations[i-1].Version {
			return nil, fmt.Errorf("schema: %s and %s have the same version", migrations[i-1].Name, migrations[i].Name)
		}
	}
	if len(migrations) == 0 {
		return nil, fmt.Errorf("schema: there are no migration files")
	}
	return migrations, nil
}

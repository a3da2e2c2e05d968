package schema

import (
	"io/fs"
	"strings"
)

// SQL returns the SQL of an embedded version, to be read. It is not enough to apply the
// version: [Migrator.Run] also takes the migration lock, runs it in a transaction and
// records it. SQL needs no database. The error for an unknown version is
// [ErrUnknownVersion].
func SQL(version int64, direction Direction) (string, error) {
	for _, migration := range List() {
		if migration.Version == version {
			return migrationText(embeddedFS(), migration, direction)
		}
	}
	return "", &UnknownVersionError{Version: version}
}

// migrationText returns the section of a goose file for one direction, without goose's
// annotations.
func migrationText(fsys fs.FS, migration Migration, direction Direction) (string, error) {
	content, err := fs.ReadFile(fsys, migration.file)
	if err != nil {
		return "", invalid("read migration %s: %w", migration.Name, err)
	}
	var text strings.Builder
	var section Direction
	for line := range strings.Lines(string(content)) {
		annotation, found := strings.CutPrefix(strings.TrimSpace(line), "-- +goose ")
		switch {
		case found && annotation == "Up":
			section = DirectionUp
		case found && annotation == "Down":
			section = DirectionDown
		case !found && section == direction:
			text.WriteString(line)
		}
	}
	return strings.TrimSpace(text.String()) + "\n", nil
}

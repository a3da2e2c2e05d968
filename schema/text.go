package schema

import (
	"fmt"
	"io/fs"
	"strings"
)

// SQL returns the text that a run would execute for one embedded version, for
// reading (or for a database administrator who runs migrations by hand). It
// needs no database. An unknown version gives [ErrUnknownVersion].
func SQL(version int64, direction Direction) (string, error) {
	for _, migration := range List() {
		if migration.Version == version {
			return migrationText(embeddedFS(), migration, direction)
		}
	}
	return "", UnknownVersionError{Version: version}
}

// migrationText cuts one direction's section out of a goose file, without
// goose's own annotation lines.
func migrationText(fsys fs.FS, migration Migration, direction Direction) (string, error) {
	content, err := fs.ReadFile(fsys, migration.file)
	if err != nil {
		return "", fmt.Errorf("schema: read migration %s: %w", migration.Name, err)
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

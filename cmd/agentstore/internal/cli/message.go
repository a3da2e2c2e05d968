package cli

import (
	"errors"
	"io/fs"
	"regexp"
	"strings"
)

var secret = regexp.MustCompile(`(?i)://|password\s*=|PRIVATE\+KEY`)

// message returns the text of an error for people, or "". A usage error quotes an
// argument, and a database URL or a private key may end up among the arguments by
// mistake. The whole text is then omitted, because in a malformed URL the end of
// the password is unknown.
func message(err error) string {
	if err == nil {
		return ""
	}
	var usage usageError
	if errors.As(err, &usage) && secret.MatchString(usage.text) {
		return "an argument is in the wrong place (not shown: it contains a connection string or a key). See agentstore help"
	}
	var file *fs.PathError
	if errors.As(err, &file) && secret.MatchString(file.Path) {
		return "the name of a file is a connection string or a key (not shown). See agentstore help"
	}
	return strings.TrimPrefix(err.Error(), "agentstore: ") // of the library's errors; the command's name is printed before them
}

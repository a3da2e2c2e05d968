package cli

import (
	"errors"
	"io/fs"
	"regexp"
)

var secret = regexp.MustCompile(`(?i)://|password\s*=|PRIVATE\+KEY`)

// message is the text of an error for people. A usage error quotes an argument,
// and a database URL or a private key easily lands in the wrong place among the arguments: then
// the text is left out altogether, because where a malformed URL's password ends
// nobody can tell.
func message(err error) string {
	var usage usageError
	if errors.As(err, &usage) && secret.MatchString(usage.text) {
		return "an argument is in the wrong place (not shown: it holds a connection string or a key). See agentstore help"
	}
	var file *fs.PathError
	if errors.As(err, &file) && secret.MatchString(file.Path) {
		return "the name of a file is a connection string or a key (not shown). See agentstore help"
	}
	return err.Error()
}

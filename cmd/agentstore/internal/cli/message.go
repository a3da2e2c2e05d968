package cli

import (
	"errors"
	"regexp"
)

var connectionString = regexp.MustCompile(`(?i)://|password\s*=`)

// message is the text of an error for people. A usage error quotes an argument,
// and a database URL easily lands in the wrong place among the arguments: then
// the text is left out altogether, because where a malformed URL's password ends
// nobody can tell.
func message(err error) string {
	var usage usageError
	if errors.As(err, &usage) && connectionString.MatchString(usage.text) {
		return "an argument is in the wrong place (not shown: it holds a connection string). See agentstore help"
	}
	return err.Error()
}

package cli

import (
	"errors"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore/repo"
)

// sessionChoice says which session a command is about: that of its argument ID, or that
// of --key.
type sessionChoice struct{ key repo.SessionKey }

func (c *sessionChoice) flags() []urfave.Flag {
	return []urfave.Flag{
		stringFlag(&c.key.Key, "key", "the session with this `key`, instead of ID"),
		stringFlag(&c.key.Namespace, "namespace", "the key's `namespace` (otherwise: "+repo.DefaultNamespace+")"),
	}
}

// check sets the invocation's id. command is the name of the command.
func (c *sessionChoice) check(invocation *invocation, command string) error {
	switch {
	case (len(invocation.args) == 0) == (c.key.Key == ""):
		return usageError{text: command + " needs either ID or --key. See agentstore " + command + " --help"}
	case c.key.Key != "":
		invocation.id = c.key.ID()
		return nil
	case c.key.Namespace != "":
		return usageError{text: "--namespace is only for --key"}
	}
	return needsID(invocation)
}

// named gives the error of a missing session the key by which it was chosen.
func (c *sessionChoice) named(err error) error {
	missing, ok := errors.AsType[*repo.NotFoundError](err)
	if !ok || c.key.Key == "" || missing.ID != c.key.ID() {
		return err
	}
	withKey := *missing
	withKey.Key = c.key
	return &withKey
}

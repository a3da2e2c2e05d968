package cli

import (
	"context"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

// sessionChoice is the session of a command, by its argument ID or by --key.
type sessionChoice struct{ key repo.SessionKey }

func (c *sessionChoice) flags() []urfave.Flag {
	return []urfave.Flag{
		stringFlag(&c.key.Key, "key", "the session with this `key`, instead of ID"),
		stringFlag(&c.key.Namespace, "namespace", "the key's `namespace` (otherwise: "+repo.DefaultNamespace+")"),
	}
}

// check checks the choice, and sets the invocation's id if that was given. command is the name
// of the command.
func (c *sessionChoice) check(invocation *invocation, command string) error {
	switch {
	case (len(invocation.args) == 0) == (c.key.Key == ""):
		return usageError{text: command + " needs either ID or --key. See agentstore " + command + " --help"}
	case c.key.Key != "":
		return nil
	case c.key.Namespace != "":
		return usageError{text: "--namespace is only for --key"}
	}
	return needsID(invocation)
}

// find sets the invocation's id if the key was given.
func (c *sessionChoice) find(ctx context.Context, invocation *invocation, store *agentstore.Store) (err error) {
	if c.key.Key != "" {
		invocation.id, err = store.Sessions().Find(ctx, c.key)
	}
	return err
}

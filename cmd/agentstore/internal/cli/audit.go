package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

const auditUsage = `agentstore audit looks after the audit trail of a database.

Usage:
  agentstore audit <command> [flags]

Commands:
  verify          find every change of what was sealed; exit code 7 if there is one
  prove ID        print the proof that an entry is in the log, as JSON
  check FILE      check such a proof, offline: it needs no database
  checkpoint      print the latest checkpoint, to be kept elsewhere
  seal            seal what waits to be, once
  prune           remove old entries; what is on hold or not sealed stays
  doctor          look at partitions, triggers, grants and the sealer's lag; exit code 8
                  if somebody has to do something
  keygen NAME     make a key pair: the private key on stdout, the public on stderr
`

type auditFlags struct {
	databaseURL string
	key         string
	keyFile     string
	held        string
	before      string
	types       string
	reason      string
	actor       string
	maxWaiting  time.Duration
	dryRun      bool
	json        bool
}

// auditCommands have their arguments' number, and whether they need a database.
var auditCommands = map[string]struct {
	arguments int
	offline   bool
	run       func(ctx context.Context, invocation invocation, flags auditFlags, args []string, store *agentstore.Store) error
}{
	"verify":     {run: auditVerify},
	"prove":      {arguments: 1, run: auditProve},
	"check":      {arguments: 1, offline: true, run: auditCheck},
	"checkpoint": {run: auditCheckpoint},
	"seal":       {run: auditSeal},
	"prune":      {run: auditPrune},
	"doctor":     {run: auditDoctor},
	"keygen":     {arguments: 1, offline: true, run: auditKeygen},
}

func runAudit(ctx context.Context, invocation invocation) error {
	if len(invocation.args) == 0 {
		return usageError{text: "which audit command? See agentstore audit --help"}
	}
	name, rest := invocation.args[0], invocation.args[1:]
	if strings.HasPrefix(name, "-") {
		name, rest = "", invocation.args
	}
	var values auditFlags
	flags := flag.NewFlagSet("audit "+name, flag.ContinueOnError)
	flags.StringVar(&values.databaseURL, "database-url", "", "the database `URL`, else DATABASE_URL of the environment")
	flags.StringVar(&values.key, "key", "", "verify, check: the public `key` that checkpoints must be signed with")
	flags.StringVar(&values.keyFile, "private-key-file", "", "seal: the `file` with the private key that signs checkpoints")
	flags.StringVar(&values.held, "checkpoint", "", "verify: a `file` with a checkpoint that was kept elsewhere")
	flags.DurationVar(&values.maxWaiting, "max-waiting", time.Hour, "verify: how long an entry may wait to be sealed")
	flags.StringVar(&values.before, "before", "", "prune: entries that occurred before this `time` (RFC 3339, or 2006-01-02)")
	flags.StringVar(&values.types, "types", "", "prune: `types`, with commas between; otherwise all")
	flags.StringVar(&values.reason, "reason", "", "prune: `why`, for the entry that the prune itself records")
	flags.StringVar(&values.actor, "actor", "", "prune: `who`, for that entry")
	flags.BoolVar(&values.dryRun, "dry-run", false, "prune: only count")
	flags.BoolVar(&values.json, "json", false, "print one JSON object")
	command, known := auditCommands[name]
	arguments := rest[:min(command.arguments, len(rest))]
	if len(arguments) > 0 && strings.HasPrefix(arguments[0], "-") {
		arguments = nil
	}
	if err := parse(flags, rest[len(arguments):], auditUsage); err != nil {
		return err
	}
	if !known {
		return usageError{text: fmt.Sprintf("unknown audit command %q. See agentstore audit --help", name)}
	}
	if len(arguments) != command.arguments {
		return usageError{text: fmt.Sprintf("audit %s needs an argument. See agentstore audit --help", name)}
	}
	if command.offline {
		return command.run(ctx, invocation, values, arguments, nil)
	}
	store, err := auditStore(ctx, invocation, values)
	if err != nil {
		return err
	}
	return errors.Join(command.run(ctx, invocation, values, arguments, store), store.Close())
}

func auditStore(ctx context.Context, invocation invocation, flags auditFlags) (*agentstore.Store, error) {
	if flags.databaseURL == "" {
		flags.databaseURL = invocation.env("DATABASE_URL")
	}
	if flags.databaseURL == "" {
		return nil, usageError{text: "no database: set DATABASE_URL or --database-url"}
	}
	store, err := agentstore.Open(ctx, flags.databaseURL)
	if errors.Is(err, repo.ErrInvalid) {
		return nil, usageError{text: err.Error()}
	}
	return store, err
}

// verifier reads the public key. Nil: none was given.
func (f auditFlags) verifier() (note.Verifier, error) {
	if f.key == "" {
		return nil, nil
	}
	verifier, err := note.NewVerifier(f.key)
	if err != nil {
		return nil, usageError{text: "--key is no public key: agentstore audit keygen prints one"}
	}
	return verifier, nil
}

// signer reads the private key's file. Nil: none was given.
func (f auditFlags) signer() (note.Signer, error) {
	if f.keyFile == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(f.keyFile)
	if err != nil {
		return nil, err
	}
	signer, err := note.NewSigner(strings.TrimSpace(string(raw)))
	if err != nil { // its message could quote the key
		return nil, usageError{text: "--private-key-file holds no private key: agentstore audit keygen prints one"}
	}
	return signer, nil
}

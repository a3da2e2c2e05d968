package cli

import (
	"context"
	"os"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v3"
	"golang.org/x/mod/sumdb/note"

	"github.com/seed-df90f812/agentstore"
)

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

// auditVerb is a command that keeps the trail: those that read it are in
// audit_list.go.
type auditVerb struct {
	name, summary string
	arguments     []string
	offline       bool
	flags         func(*auditFlags) []urfave.Flag
	more          string
	run           func(ctx context.Context, invocation invocation, flags auditFlags, args []string, store *agentstore.Store) error
}

func auditVerbs() []auditVerb {
	return []auditVerb{
		{
			name: "verify", summary: "report every change to sealed entries; exit code 7 if there is one",
			flags: verifyFlags, run: auditVerify,
			more: `Examples:
  agentstore audit verify --key "$PUBLIC_KEY" --checkpoint kept-elsewhere.txt`,
		},
		{
			name: "prove", summary: "print the proof that an entry is in the log, as JSON",
			arguments: []string{"ID"}, flags: noFlags, run: auditProve,
			more: `Examples:
  agentstore audit prove 01KGGZ7Q3M0000000000000001 > proof.json`,
		},
		{
			name: "check", summary: "check such a proof, offline: it needs no database",
			arguments: []string{"FILE"}, offline: true, flags: keyFlag, run: auditCheck,
			more: `Examples:
  agentstore audit check proof.json --key "$PUBLIC_KEY"`,
		},
		{
			name: "checkpoint", summary: "print the latest checkpoint, to be kept elsewhere",
			flags: noFlags, run: auditCheckpoint,
		},
		{
			name: "seal", summary: "seal the entries that wait, once",
			flags: sealFlags, run: auditSeal,
			more: `Examples:
  agentstore audit seal --private-key-file /run/secrets/audit`,
		},
		{
			name: "prune", summary: "remove old entries, except those that are on hold or not sealed",
			flags: pruneFlags, run: auditPrune,
			more: `Examples:
  agentstore audit prune --before 2026-01-01 --dry-run
  agentstore audit prune --before 2026-01-01 --types tool_invoked --reason "90 days"`,
		},
		{
			name: "doctor", summary: "check partitions, triggers, grants and sealing; exit code 8 if there are findings",
			flags: doctorFlags, run: auditDoctor,
		},
		{
			name: "keygen", summary: "make a key pair: the private key on stdout, the public on stderr",
			arguments: []string{"NAME"}, offline: true, flags: noFlags, run: auditKeygen,
			more: `Examples:
  agentstore audit keygen audit.example.com > private.key`,
		},
	}
}

func noFlags(*auditFlags) []urfave.Flag { return nil }

func keyFlag(values *auditFlags) []urfave.Flag {
	return []urfave.Flag{stringFlag(&values.key, "key", "the public `key` that checkpoints must be signed with")}
}

func verifyFlags(values *auditFlags) []urfave.Flag {
	return append(keyFlag(values),
		stringFlag(&values.held, "checkpoint", "a `file` with a checkpoint that was kept elsewhere"),
		durationFlag(&values.maxWaiting, "max-waiting", "the `duration` that an entry may wait to be sealed", time.Hour),
		boolFlag(&values.json, "json", "print one JSON object instead of text"),
	)
}

func sealFlags(values *auditFlags) []urfave.Flag {
	return []urfave.Flag{stringFlag(&values.keyFile, "private-key-file", "the `file` with the private key that signs checkpoints")}
}

func pruneFlags(values *auditFlags) []urfave.Flag {
	return []urfave.Flag{
		stringFlag(&values.before, "before", "entries that occurred before this `time` (RFC 3339, or 2006-01-02)"),
		stringFlag(&values.types, "types", "only these `types`, with commas between"),
		stringFlag(&values.reason, "reason", "the `reason`, for the entry that the prune itself records"),
		stringFlag(&values.actor, "actor", "the `name` of who prunes, for that entry"),
		boolFlag(&values.dryRun, "dry-run", "only count"),
		boolFlag(&values.json, "json", "print one JSON object instead of text"),
	}
}

func doctorFlags(values *auditFlags) []urfave.Flag {
	return []urfave.Flag{boolFlag(&values.json, "json", "print one JSON object instead of text")}
}

func auditCommand(world invocation) *urfave.Command {
	commands := []*urfave.Command{auditListCommand(world), auditExportCommand(world)}
	for _, verb := range auditVerbs() {
		commands = append(commands, verb.command(world))
	}
	return group("audit", "read, verify, prune and maintain the audit trail", "", commands...)
}

func (v auditVerb) command(world invocation) *urfave.Command {
	var values auditFlags
	flags := v.flags(&values)
	if !v.offline {
		flags = append(flags, databaseFlag(&values.databaseURL))
	}
	return leaf{
		name: v.name, summary: v.summary, arguments: v.arguments, flags: flags, more: v.more,
		run: func(ctx context.Context, invocation invocation) error {
			if v.offline {
				return v.run(ctx, invocation, values, invocation.args, nil)
			}
			return withStore(ctx, invocation, values.databaseURL, func(store *agentstore.Store) error {
				return v.run(ctx, invocation, values, invocation.args, store)
			})
		},
	}.command(world)
}

// verifier reads the public key. Nil: none was given.
func (f auditFlags) verifier() (note.Verifier, error) {
	if f.key == "" {
		return nil, nil
	}
	verifier, err := note.NewVerifier(f.key)
	if err != nil {
		return nil, usageError{text: "--key is not a public key: agentstore audit keygen prints one"}
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

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v3"
	"golang.org/x/mod/sumdb/note"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit/auditlog"
)

// auditFlags are the flags of the commands that maintain the audit trail; each
// declares its own. Commands that read it are in audit_list.go.
type auditFlags struct {
	key, keyFile, held, output string
	maxWaiting                 time.Duration
	prune                      auditlog.Prune
}

func auditCommand(world invocation) *urfave.Command {
	var f auditFlags
	commands := []*urfave.Command{auditListCommand(world), auditExportCommand(world)}
	commands = append(commands, leaves(world, append(f.checking(), f.maintaining()...)...)...)
	return group("audit", "read, verify, prune and maintain the audit trail", "", commands...)
}

const auditJSON = "print one JSON object instead of text"

// checking returns the commands that prove what the trail has.
func (f *auditFlags) checking() []leaf {
	key := stringFlag(&f.key, "key", "the public `key` that checkpoints must be signed with")
	return []leaf{
		{
			name: "verify", summary: "report every change to sealed entries; exit code 7 if there is one",
			flags: []urfave.Flag{
				key,
				stringFlag(&f.held, "checkpoint", "a `file` with a checkpoint that was kept outside the database"),
				durationFlag(&f.maxWaiting, "max-waiting", "how long (a `duration`) an entry may wait to be sealed; more than 0", time.Hour),
			},
			json: auditJSON, onStore: f.verify,
			before: func(*invocation) error {
				if f.maxWaiting == 0 { // which audit.Verify takes for its default
					return usageError{text: "--max-waiting is 0: an entry always waits for a moment"}
				}
				return nil
			},
			more: `Examples:
  agentstore audit verify --key "$PUBLIC_KEY" --checkpoint kept-elsewhere.txt`,
		},
		{
			name: "prove", summary: "print the proof that an entry is in the log, as JSON",
			arguments: []string{"ID"}, onStore: auditProve,
			more: `Examples:
  agentstore audit prove 019c21f3-dc74-7000-8000-000000000001 > proof.json`,
		},
		{
			name: "check", summary: "check such a proof; needs no database",
			arguments: []string{"FILE"}, flags: []urfave.Flag{key}, run: f.check,
			more: `Examples:
  agentstore audit check proof.json --key "$PUBLIC_KEY"`,
		},
		{
			name: "checkpoint", summary: "print the latest checkpoint, to be kept outside the database",
			onStore: auditCheckpoint,
		},
	}
}

// maintaining returns the commands that change the trail, or look after it.
func (f *auditFlags) maintaining() []leaf {
	return []leaf{
		{
			name: "seal", summary: "seal the waiting entries, once",
			flags:   []urfave.Flag{stringFlag(&f.keyFile, "private-key-file", "the `file` with the private key that signs checkpoints")},
			onStore: f.seal,
			more: `Examples:
  agentstore audit seal --private-key-file /run/secrets/audit`,
		},
		{
			name: "prune", summary: "remove old entries; keep held and unsealed ones",
			flags: []urfave.Flag{
				timeFlag(&f.prune.Before, "before", "entries that occurred before this `time` (RFC 3339, or 2006-01-02)"),
				parsedFlag(&f.prune.Types, "types", "only these `types`, separated by commas", readTypes),
				stringFlag(&f.prune.Reason, "reason", "the `reason`, for the entry that records the prune"),
				stringFlag(&f.prune.Actor, "actor", "the pruning person's `name`, for that entry"),
				boolFlag(&f.prune.DryRun, "dry-run", "only count"),
			},
			json: auditJSON, onStore: f.runPrune,
			more: `Examples:
  agentstore audit prune --before 2026-01-01 --dry-run
  agentstore audit prune --before 2026-01-01 --types tool_invoked --reason "90 days"`,
		},
		auditHold(),
		auditRelease(),
		auditHolds(),
		{
			name: "doctor", summary: "check triggers, grants and sealing; exit code 8 if there are findings",
			json: auditJSON, onStore: auditDoctor,
		},
		{
			name: "keygen", summary: "make a key pair that signs and verifies checkpoints",
			arguments: []string{"NAME"}, run: f.keygen,
			flags: []urfave.Flag{parsedFlag(&f.output, "output", "write the private key to this `file`, which must not exist and which only its owner can read, and the public key to stdout", readNewFile)},
			more: `Without --output the private key is printed on stdout, and the public key on stderr.

Examples:
  agentstore audit keygen audit.example.com --output private.key > public.key`,
		},
	}
}

// verifier parses the public key. It returns nil if none was given.
func (f *auditFlags) verifier() (note.Verifier, error) {
	if f.key == "" {
		return nil, nil
	}
	verifier, err := note.NewVerifier(f.key)
	if err != nil {
		return nil, usageError{text: "--key is not a public key: agentstore audit keygen prints one"}
	}
	return verifier, nil
}

// signer reads the private key from its file. It returns nil if none was given.
func (f *auditFlags) signer() (note.Signer, error) {
	if f.keyFile == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(f.keyFile)
	if err != nil {
		return nil, err
	}
	signer, err := note.NewSigner(strings.TrimSpace(string(raw)))
	if err != nil { // its message could quote the key
		return nil, usageError{text: "--private-key-file does not contain a private key: agentstore audit keygen prints one"}
	}
	return signer, nil
}

// errFindings means that the doctor found problems.
var errFindings = errors.New("the audit trail needs attention")

func auditDoctor(ctx context.Context, invocation invocation, store *agentstore.Store) error {
	findings, err := store.AuditLog().Doctor(ctx)
	if err != nil {
		return err
	}
	if len(findings) > 0 {
		err = errFindings
	}
	if invocation.json {
		return printReport(invocation, object{{"findings", append([]auditlog.Finding{}, findings...)}}, err)
	}
	for _, finding := range findings {
		fmt.Fprintf(invocation.stdout, "%s: %s\n  %s\n", finding.Check, finding.Problem, finding.Action)
	}
	if err == nil {
		fmt.Fprintln(invocation.stdout, "triggers, grants and sealing are as they should be")
	}
	return err
}

func (f *auditFlags) runPrune(ctx context.Context, invocation invocation, store *agentstore.Store) error {
	if f.prune.Before.IsZero() {
		return usageError{text: "audit prune needs --before: entries that occurred before that time are removed"}
	}
	pruned, err := store.AuditLog().Prune(ctx, f.prune)
	if err != nil {
		return err
	}
	if invocation.json {
		return printJSON(invocation.stdout, object{
			{"pruned", pruned.Entries}, {"held", pruned.Held}, {"unsealed", pruned.Unsealed}, {"dry_run", f.prune.DryRun},
		})
	}
	verb := "were"
	if f.prune.DryRun {
		verb = "would be"
	}
	fmt.Fprintf(invocation.stdout, "%d entries %s pruned; %d are on hold, %d not sealed yet\n", pruned.Entries, verb, pruned.Held, pruned.Unsealed)
	return nil
}

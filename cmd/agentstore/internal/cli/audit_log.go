package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/repo"
)

// errBroken means that a verification found breaks.
var errBroken = errors.New("the trail does not verify")

func (f *auditFlags) verify(ctx context.Context, invocation invocation, store *agentstore.Store) error {
	verifier, err := f.verifier()
	if err != nil {
		return err
	}
	options := audit.VerifyOptions{Verifier: verifier, MaxWaiting: f.maxWaiting}
	if f.held != "" {
		if options.Held, err = os.ReadFile(f.held); err != nil {
			return err
		}
	}
	report, err := audit.Verify(ctx, store.AuditLog(), options)
	if err != nil {
		return err
	}
	if !report.Intact() {
		err = errBroken
	}
	if invocation.json {
		report.Prunes, report.Breaks = append([]audit.Prune{}, report.Prunes...), append([]audit.Break{}, report.Breaks...)
		return printReport(invocation, report, err)
	}
	fmt.Fprintf(invocation.stdout, "%d entries are sealed, %d of them pruned; %d wait to be sealed\n", report.Sealed, report.Pruned, report.Waiting)
	for _, prune := range report.Prunes {
		fmt.Fprintf(invocation.stdout, "PRUNED  %d entries before %s, by entry %s (leaf %d) of %s: types %v, %s\n",
			prune.Entries, prune.Before.Format(time.RFC3339), prune.EntryID, prune.Sequence, prune.OccurredAt.Format(time.RFC3339), prune.Types, prune.Reason)
	}
	if report.Erased > 0 {
		fmt.Fprintf(invocation.stdout, "%d entries have fields that were erased: what they were cannot be told\n", report.Erased)
	}
	for _, b := range report.Breaks {
		line := "BROKEN  " + string(b.Kind)
		if b.Sequence >= 0 {
			line += fmt.Sprintf("  leaf %d", b.Sequence)
		}
		if !b.EntryID.IsZero() {
			line += "  entry " + b.EntryID.String()
		}
		if b.Detail != "" {
			line += "  " + b.Detail
		}
		fmt.Fprintln(invocation.stdout, line)
	}
	if report.More {
		fmt.Fprintln(invocation.stdout, "BROKEN  and more")
	}
	if err == nil {
		fmt.Fprintln(invocation.stdout, "the trail verifies")
	}
	return err
}

func auditProve(ctx context.Context, invocation invocation, store *agentstore.Store) error {
	id, err := repo.ParseID(invocation.args[0])
	if err != nil {
		return usageError{text: err.Error()}
	}
	proof, err := audit.Prove(ctx, store.AuditLog(), id)
	if err != nil {
		return err
	}
	return printJSON(invocation.stdout, proof)
}

func (f *auditFlags) check(_ context.Context, invocation invocation) error {
	verifier, err := f.verifier()
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(invocation.args[0])
	if err != nil {
		return err
	}
	var proof audit.Proof
	if err := json.Unmarshal(raw, &proof); err != nil {
		return fmt.Errorf("%w: it is not a proof in JSON", audit.ErrProof)
	}
	if err := audit.CheckProof(proof, verifier); err != nil {
		return err
	}
	checkpoint, err := audit.ParseCheckpoint([]byte(proof.Checkpoint), verifier)
	if err != nil {
		return err
	}
	signed := "the signature of its checkpoint is valid"
	if verifier == nil {
		signed = "the signature of its checkpoint was not checked, because no --key was given"
	}
	fmt.Fprintf(invocation.stdout, "entry %s is leaf %d of %d; %s\n", proof.Entry.ID, proof.Sequence, checkpoint.Size, signed)
	return nil
}

func auditCheckpoint(ctx context.Context, invocation invocation, store *agentstore.Store) error {
	checkpoint, err := store.AuditLog().Checkpoint(ctx)
	if errors.Is(err, repo.ErrNotFound) {
		return errors.New("there is no checkpoint: nothing is sealed yet. See agentstore audit seal --help")
	}
	if err != nil {
		return err
	}
	_, err = invocation.stdout.Write(checkpoint.Note)
	return err
}

func (f *auditFlags) seal(ctx context.Context, invocation invocation, store *agentstore.Store) error {
	signer, err := f.signer()
	if err != nil {
		return err
	}
	sealer, err := audit.NewSealer(store.AuditLog(), audit.SealerOptions{Signer: signer})
	if err != nil {
		return err
	}
	total := 0
	for {
		sealed, err := sealer.SealOnce(ctx)
		if err != nil {
			return err
		}
		if sealed == 0 {
			break
		}
		total += sealed
	}
	fmt.Fprintf(invocation.stdout, "entries sealed: %d\n", total)
	return nil
}

func (f *auditFlags) keygen(_ context.Context, invocation invocation) error {
	private, public, err := note.GenerateKey(rand.Reader, invocation.args[0])
	if err == nil {
		_, err = note.NewSigner(private) // to check the name
	}
	if err != nil {
		return usageError{text: "the name of a key must not be empty, and must not contain a space or a plus sign"}
	}
	if f.output != "" {
		if err := writeKey(f.output, private); err != nil {
			return err
		}
		_, err = fmt.Fprintln(invocation.stdout, public)
		return err
	}
	fmt.Fprintln(invocation.stdout, private)
	fmt.Fprintln(invocation.stderr, public)
	return nil
}

// writeKey writes a private key to a new file, which only its owner can read.
func writeKey(name, private string) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, private)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		_ = os.Remove(name) // it has no whole key
	}
	return err
}

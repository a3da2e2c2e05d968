package audit

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/seed-df90f812/agentstore/repo"
)

// DefaultOrigin names the log in its checkpoints.
const DefaultOrigin = "agentstore/audit"

// ErrCheckpoint says that a checkpoint is malformed, or not signed by the key that
// is asked for.
var ErrCheckpoint = errors.New("audit: checkpoint refused")

// newCheckpoint states a tree in the form of https://c2sp.org/tlog-checkpoint,
// signed where there is a signer.
func newCheckpoint(origin string, size int64, root [32]byte, signer note.Signer) (repo.AuditCheckpoint, error) {
	checkpoint := repo.AuditCheckpoint{Size: size, Root: root}
	text := fmt.Sprintf("%s\n%d\n%s\n", origin, size, base64.StdEncoding.EncodeToString(root[:]))
	if signer == nil {
		checkpoint.Note = []byte(text)
		return checkpoint, nil
	}
	signed, err := note.Sign(&note.Note{Text: text}, signer)
	if err != nil {
		return repo.AuditCheckpoint{}, fmt.Errorf("audit: sign the checkpoint: %w", err)
	}
	checkpoint.Note = signed
	return checkpoint, nil
}

// ParseCheckpoint reads a checkpoint. With a verifier it must be signed by it;
// without one the signatures are not looked at. Errors: ErrCheckpoint.
func ParseCheckpoint(raw []byte, verifier note.Verifier) (repo.AuditCheckpoint, error) {
	text, _, _ := strings.Cut(string(raw), "\n\n")
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if verifier != nil {
		opened, err := note.Open(raw, note.VerifierList(verifier))
		if err != nil {
			return repo.AuditCheckpoint{}, fmt.Errorf("%w: %w", ErrCheckpoint, err)
		}
		text = opened.Text
	}
	lines := strings.Split(text, "\n")
	if len(lines) < 4 || lines[0] == "" {
		return repo.AuditCheckpoint{}, fmt.Errorf("%w: it has not three lines", ErrCheckpoint)
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil || size < 1 || strconv.FormatInt(size, 10) != lines[1] {
		return repo.AuditCheckpoint{}, fmt.Errorf("%w: its size is no number", ErrCheckpoint)
	}
	root, err := base64.StdEncoding.Strict().DecodeString(lines[2])
	checkpoint := repo.AuditCheckpoint{Size: size, Note: bytes.Clone(raw)}
	if err != nil || copy(checkpoint.Root[:], root) != len(checkpoint.Root) || len(root) != len(checkpoint.Root) {
		return repo.AuditCheckpoint{}, fmt.Errorf("%w: its root is no hash", ErrCheckpoint)
	}
	return checkpoint, nil
}

package audit

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/repo"
)

// DefaultOrigin is the name in the origin of unsigned checkpoints. Signed ones have the
// key's name.
const DefaultOrigin = "agentstore/audit"

// ErrCheckpoint means that a checkpoint is malformed, is not signed by the given key,
// or belongs to another log.
var ErrCheckpoint = errors.New("audit: checkpoint refused")

// Origin returns the first line of a log's checkpoints: a name and the log's identity,
// separated by a slash, so that one key never signs two logs with the same origin. A
// name that already ends with the identity is returned unchanged.
func Origin(name string, identity repo.ID) string {
	if strings.HasSuffix(name, "/"+identity.String()) {
		return name
	}
	return name + "/" + identity.String()
}

// statement is the text of a checkpoint.
type statement struct {
	origin string
	size   int64
	root   [32]byte
}

// newCheckpoint makes a checkpoint in the form of https://c2sp.org/tlog-checkpoint,
// signed if there is a signer.
func newCheckpoint(s statement, signer note.Signer) (auditlog.Checkpoint, error) {
	checkpoint := auditlog.Checkpoint{Size: s.size, Root: s.root}
	text := fmt.Sprintf("%s\n%d\n%s\n", s.origin, s.size, base64.StdEncoding.EncodeToString(s.root[:]))
	if signer == nil {
		checkpoint.Note = []byte(text)
		return checkpoint, nil
	}
	signed, err := note.Sign(&note.Note{Text: text}, signer)
	if err != nil {
		return auditlog.Checkpoint{}, fmt.Errorf("audit: sign the checkpoint: %w", err)
	}
	checkpoint.Note = signed
	return checkpoint, nil
}

// ParseCheckpoint parses a checkpoint. With a verifier, its key must have signed the
// checkpoint, and the origin must have the key's name; without one, signatures are not
// checked. Errors: ErrCheckpoint.
func ParseCheckpoint(raw []byte, verifier note.Verifier) (auditlog.Checkpoint, error) {
	s, err := parseStatement(raw, verifier)
	if err != nil {
		return auditlog.Checkpoint{}, err
	}
	return auditlog.Checkpoint{Size: s.size, Root: s.root, Note: bytes.Clone(raw)}, nil
}

func parseStatement(raw []byte, verifier note.Verifier) (statement, error) {
	text, _, _ := strings.Cut(string(raw), "\n\n")
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if verifier != nil {
		opened, err := note.Open(raw, note.VerifierList(verifier))
		if err != nil {
			return statement{}, fmt.Errorf("%w: %w", ErrCheckpoint, err)
		}
		text = opened.Text
	}
	lines := strings.Split(text, "\n")
	if len(lines) < 4 || lines[0] == "" {
		return statement{}, fmt.Errorf("%w: it does not have three lines", ErrCheckpoint)
	}
	s := statement{origin: lines[0]}
	var err error
	if s.size, err = parseCount(lines[1]); err != nil || s.size < 1 {
		return statement{}, fmt.Errorf("%w: its size is not a number", ErrCheckpoint)
	}
	root, err := base64.StdEncoding.Strict().DecodeString(lines[2])
	if err != nil || copy(s.root[:], root) != len(s.root) || len(root) != len(s.root) {
		return statement{}, fmt.Errorf("%w: its root is not a hash", ErrCheckpoint)
	}
	identity, err := s.identity()
	if err != nil {
		return statement{}, err
	}
	if verifier != nil && s.origin != Origin(verifier.Name(), identity) {
		return statement{}, fmt.Errorf("%w: its origin does not have the key's name", ErrCheckpoint)
	}
	return s, nil
}

// parseCount parses a number in its only valid form.
func parseCount(text string) (int64, error) {
	count, err := strconv.ParseInt(text, 10, 64)
	if err != nil || count < 0 || strconv.FormatInt(count, 10) != text {
		return 0, errors.New("not a number")
	}
	return count, nil
}

// identity returns the log's identity from the origin.
func (s statement) identity() (repo.ID, error) {
	id, err := repo.ParseID(s.origin[strings.LastIndexByte(s.origin, '/')+1:])
	if err != nil {
		return repo.ID{}, fmt.Errorf("%w: its origin names no log", ErrCheckpoint)
	}
	return id, nil
}

// about checks that the checkpoint belongs to this log.
func (s statement) about(identity repo.ID) error {
	if named, err := s.identity(); err != nil || named != identity {
		return fmt.Errorf("%w: its origin names another log", ErrCheckpoint)
	}
	return nil
}

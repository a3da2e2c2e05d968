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

// versionOneLine begins the line of a checkpoint that states how many of its leaves
// are of version 1, so that no leaf of version 2 can be passed off as one.
const versionOneLine = "agentstore/audit leaves of version 1: "

// statement is the text of a checkpoint.
type statement struct {
	origin string
	size   int64
	root   [32]byte
	// versionOne is how many leaves are of version 1. -1: the checkpoint does not
	// state it, because an older version of the library made it.
	versionOne int64
}

// newCheckpoint makes a checkpoint in the form of https://c2sp.org/tlog-checkpoint,
// signed if there is a signer.
func newCheckpoint(s statement, signer note.Signer) (repo.AuditCheckpoint, error) {
	checkpoint := repo.AuditCheckpoint{Size: s.size, Root: s.root}
	text := fmt.Sprintf("%s\n%d\n%s\n", s.origin, s.size, base64.StdEncoding.EncodeToString(s.root[:]))
	if s.versionOne >= 0 {
		text += versionOneLine + strconv.FormatInt(s.versionOne, 10) + "\n"
	}
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

// ParseCheckpoint parses a checkpoint. With a verifier, its key must have signed the
// checkpoint, and the origin must have the key's name; without one, signatures are not
// checked. Errors: ErrCheckpoint.
func ParseCheckpoint(raw []byte, verifier note.Verifier) (repo.AuditCheckpoint, error) {
	s, err := parseStatement(raw, verifier)
	if err != nil {
		return repo.AuditCheckpoint{}, err
	}
	return repo.AuditCheckpoint{Size: s.size, Root: s.root, Note: bytes.Clone(raw)}, nil
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
	s := statement{origin: lines[0], versionOne: -1}
	var err error
	if s.size, err = parseCount(lines[1]); err != nil || s.size < 1 {
		return statement{}, fmt.Errorf("%w: its size is not a number", ErrCheckpoint)
	}
	root, err := base64.StdEncoding.Strict().DecodeString(lines[2])
	if err != nil || copy(s.root[:], root) != len(s.root) || len(root) != len(s.root) {
		return statement{}, fmt.Errorf("%w: its root is not a hash", ErrCheckpoint)
	}
	for _, line := range lines[3:] {
		if count, found := strings.CutPrefix(line, versionOneLine); found {
			if s.versionOne, err = parseCount(count); err != nil || s.versionOne > s.size {
				return statement{}, fmt.Errorf("%w: its count of leaves is not a number", ErrCheckpoint)
			}
			break
		}
	}
	if identity, has := s.identity(); verifier != nil && has && s.origin != Origin(verifier.Name(), identity) {
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

// identity returns the log's identity from the origin. Checkpoints of older versions
// of the library have none: their signature is verified, but they do not say to which
// log of that key they belong.
func (s statement) identity() (repo.ID, bool) {
	last := strings.LastIndexByte(s.origin, '/')
	id, err := repo.ParseID(s.origin[last+1:])
	return id, last >= 0 && err == nil
}

// about checks that the checkpoint belongs to this log, if it names one.
func (s statement) about(identity repo.ID) error {
	if named, has := s.identity(); has && named != identity {
		return fmt.Errorf("%w: its origin names another log", ErrCheckpoint)
	}
	return nil
}

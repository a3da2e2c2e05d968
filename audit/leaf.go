package audit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// These lines begin what is hashed, so that nothing else hashes to the same. Another
// form of the leaf gets another number.
const (
	leafLine   = "agentstore/audit leaf 1\n"
	hiddenLine = "agentstore/audit hidden 1\n"
)

// LeafHash is the record hash (RFC 6962) of an entry's leaf. It hashes, in this order:
// the line "agentstore/audit leaf 1"; the id; occurred_at and recorded_at in microseconds
// since 1970; the type and the namespace; the ids of the plan and the session, zero for
// none; and the hidden hash. All of these stay with the leaf when the entry is pruned,
// so that it can be verified that the prune's bounds covered it.
//
// The hidden hash is SHA-256 of the line "agentstore/audit hidden 1" and the digests of
// the actor, the user, the project and the details. A field's digest is SHA-256 of the
// line "agentstore/audit actor 1" (user, project, details), its salt and its value;
// for a field that was erased, the salt's place has the digest itself, and the value is
// empty, or {} for the details.
//
// Types, namespaces and salts have their length before them. Numbers and lengths are
// big-endian in 8 bytes. A line ends with its line feed.
func LeafHash(entry auditlog.Entry) [32]byte {
	return keptHash(entry.ID, entry.OccurredAt, keptOf(entry))
}

// hiddenHash is auditlog.Kept.Hidden.
func hiddenHash(entry auditlog.Entry) [32]byte {
	hidden := []byte(hiddenLine)
	for i, field := range rules.HiddenFields(entry.AuditEntry) {
		var salt []byte
		if i < len(entry.Salts) { // the stored salts may have been tampered with
			salt = entry.Salts[i]
		}
		if rules.IsErased(salt) && field.Value == field.Erased {
			hidden = append(hidden, salt...)
			continue
		}
		digest := field.Digest(salt)
		hidden = append(hidden, digest[:]...)
	}
	return sha256.Sum256(hidden)
}

func keptOf(entry auditlog.Entry) auditlog.Kept {
	return auditlog.Kept{
		RecordedAt: entry.RecordedAt, Type: entry.Type, Namespace: entry.Namespace, PlanID: entry.PlanID,
		SessionID: entry.SessionID,
		Hidden:    hiddenHash(entry),
	}
}

// keptHash is the hash of a leaf by what it keeps.
func keptHash(id repo.ID, occurredAt time.Time, kept auditlog.Kept) [32]byte {
	leaf := make([]byte, 0, 256)
	leaf = append(leaf, leafLine...)
	leaf = append(leaf, id[:]...)
	leaf = binary.BigEndian.AppendUint64(leaf, uint64(occurredAt.UnixMicro()))
	leaf = binary.BigEndian.AppendUint64(leaf, uint64(kept.RecordedAt.UnixMicro()))
	leaf = appendText(leaf, kept.Type)
	leaf = appendText(leaf, kept.Namespace)
	leaf = append(leaf, kept.PlanID[:]...)
	leaf = append(leaf, kept.SessionID[:]...)
	return tlog.RecordHash(append(leaf, kept.Hidden[:]...))
}

func appendText(to []byte, text string) []byte {
	return append(binary.BigEndian.AppendUint64(to, uint64(len(text))), text...)
}

// renamed changes the names of the same 32 bytes: tlog's hashes are a type of their
// own.
func renamed[To, From ~[32]byte](hashes []From) []To {
	named := make([]To, len(hashes))
	for i, hash := range hashes {
		named[i] = To(hash)
	}
	return named
}

// hashesOf reads the hashes that a log has stored.
func hashesOf(ctx context.Context, log auditlog.Log) tlog.HashReader {
	return tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		found, err := log.Hashes(ctx, indexes)
		return renamed[tlog.Hash](found), err
	})
}

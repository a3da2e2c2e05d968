package audit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/seed-df90f812/agentstore/repo"
)

// leafDomain and the others begin what is hashed, so that nothing else hashes to the
// same. Another form of the leaf gets another version.
const (
	leafDomainOne = "agentstore/audit leaf 1\n"
	leafDomain    = "agentstore/audit leaf 2\n"
	hiddenDomain  = "agentstore/audit hidden 2\n"
)

// LeafHash is the record hash (RFC 6962) of an entry's leaf, in the form that a
// Sealer makes: version 2. It hashes, in this order: the line "agentstore/audit leaf
// 2"; the id; occurred_at in microseconds since 1970; the type, with its length before
// it; the ids of the plan and the session, zero for none; and the hash of the rest. All
// of these stay with the leaf when the entry is pruned, so that it can be verified that
// the prune's bounds covered it.
//
// The rest is what a leaf tells nobody when its entry is gone. Its hash is SHA-256 of,
// in this order: the line "agentstore/audit hidden 2"; the nonce; recorded_at in
// microseconds since 1970; the actor, user and project, each with its length before
// it; and the details. Numbers and lengths are big-endian in 8 bytes. A line ends with
// its line feed.
func LeafHash(entry repo.SealedEntry) [32]byte {
	return keptHash(entry.ID, entry.OccurredAt, keptOf(entry))
}

// hiddenHash is repo.AuditKept.Hidden.
func hiddenHash(entry repo.SealedEntry) [32]byte {
	hidden := make([]byte, 0, 256+len(entry.Details))
	hidden = append(hidden, hiddenDomain...)
	hidden = append(hidden, entry.Nonce[:]...)
	hidden = binary.BigEndian.AppendUint64(hidden, uint64(entry.RecordedAt.UnixMicro()))
	for _, text := range []string{entry.Actor, entry.User, entry.Project} {
		hidden = appendText(hidden, text)
	}
	return sha256.Sum256(append(hidden, entry.Details...))
}

func keptOf(entry repo.SealedEntry) repo.AuditKept {
	return repo.AuditKept{Type: entry.Type, PlanID: entry.PlanID, SessionID: entry.SessionID, Hidden: hiddenHash(entry)}
}

// keptHash is the hash of a leaf of version 2 by what it keeps.
func keptHash(id repo.ID, occurredAt time.Time, kept repo.AuditKept) [32]byte {
	leaf := make([]byte, 0, 256)
	leaf = append(leaf, leafDomain...)
	leaf = append(leaf, id[:]...)
	leaf = binary.BigEndian.AppendUint64(leaf, uint64(occurredAt.UnixMicro()))
	leaf = appendText(leaf, string(kept.Type))
	leaf = append(leaf, kept.PlanID[:]...)
	leaf = append(leaf, kept.SessionID[:]...)
	return tlog.RecordHash(append(leaf, kept.Hidden[:]...))
}

// leafHashOne is the hash of a leaf of version 1, of which nothing can be verified
// without its entry: the domain, the id, occurred_at and recorded_at, type, actor,
// user and project, the ids of plan and session, and SHA-256 of the nonce and the
// details.
func leafHashOne(entry repo.SealedEntry) [32]byte {
	leaf := make([]byte, 0, 256)
	leaf = append(leaf, leafDomainOne...)
	leaf = append(leaf, entry.ID[:]...)
	leaf = binary.BigEndian.AppendUint64(leaf, uint64(entry.OccurredAt.UnixMicro()))
	leaf = binary.BigEndian.AppendUint64(leaf, uint64(entry.RecordedAt.UnixMicro()))
	for _, text := range []string{string(entry.Type), entry.Actor, entry.User, entry.Project} {
		leaf = appendText(leaf, text)
	}
	leaf = append(leaf, entry.PlanID[:]...)
	leaf = append(leaf, entry.SessionID[:]...)
	hidden := sha256.New()
	hidden.Write(entry.Nonce[:])
	hidden.Write(entry.Details)
	return tlog.RecordHash(hidden.Sum(leaf))
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
func hashesOf(ctx context.Context, log repo.AuditLog) tlog.HashReader {
	return tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		found, err := log.Hashes(ctx, indexes)
		return renamed[tlog.Hash](found), err
	})
}

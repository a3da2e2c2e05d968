package audit

import (
	"crypto/sha256"
	"encoding/binary"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/seed-df90f812/agentstore/repo"
)

// leafDomain begins every leaf, so that nothing else hashes to one. Another form
// of the leaf gets another version.
const leafDomain = "agentstore/audit leaf 1\n"

// LeafHash is the record hash (RFC 6962) of an entry's leaf. The leaf is, in this
// order: the domain; the id; occurred_at and recorded_at in microseconds since
// 1970; the type, actor, user and project, each with its length before it; the ids
// of the plan and the session; and SHA-256 of the nonce and the details, so that a
// leaf that outlives its entry tells nobody what it said. Numbers and lengths are
// big-endian in 8 bytes.
func LeafHash(entry repo.SealedEntry) [32]byte {
	leaf := make([]byte, 0, 256)
	leaf = append(leaf, leafDomain...)
	leaf = append(leaf, entry.ID[:]...)
	leaf = binary.BigEndian.AppendUint64(leaf, uint64(entry.OccurredAt.UnixMicro()))
	leaf = binary.BigEndian.AppendUint64(leaf, uint64(entry.RecordedAt.UnixMicro()))
	for _, text := range []string{string(entry.Type), entry.Actor, entry.User, entry.Project} {
		leaf = binary.BigEndian.AppendUint64(leaf, uint64(len(text)))
		leaf = append(leaf, text...)
	}
	leaf = append(leaf, entry.PlanID[:]...)
	leaf = append(leaf, entry.SessionID[:]...)
	hidden := sha256.New()
	hidden.Write(entry.Nonce[:])
	hidden.Write(entry.Details)
	return tlog.RecordHash(hidden.Sum(leaf))
}

// toHashes and fromHashes change the names of the same 32 bytes.
func toHashes(hashes [][32]byte) []tlog.Hash {
	named := make([]tlog.Hash, len(hashes))
	for i, hash := range hashes {
		named[i] = hash
	}
	return named
}

func fromHashes(hashes []tlog.Hash) [][32]byte {
	plain := make([][32]byte, len(hashes))
	for i, hash := range hashes {
		plain[i] = hash
	}
	return plain
}

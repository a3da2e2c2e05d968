package document

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"

	"github.com/seed-df90f812/agentstore/repo"
)

const checksumPrefix = "sha256:"

// checksum takes the hash of the canonical form as the messages pass. Sorted by
// name, the session comes after them, so that its form is kept until the end.
type checksum struct {
	hash    hash.Hash
	buffer  []byte
	session []byte
	first   bool
}

func newChecksum(session *repo.Session, linkedPlans []repo.ID) (*checksum, error) {
	canonical, err := canonicalSession(nil, session)
	if err != nil {
		return nil, err
	}
	c := &checksum{hash: sha256.New(), session: canonical, first: true}
	c.buffer = appendIDs(append(c.buffer, `{"linked_plan_ids":`...), linkedPlans)
	c.buffer = append(c.buffer, `,"messages":[`...)
	return c, nil
}

func (c *checksum) add(message *repo.Message) (err error) {
	if !c.first {
		c.buffer = append(c.buffer, ',')
	}
	c.first = false
	if c.buffer, err = canonicalMessage(c.buffer, message); err != nil {
		return err
	}
	// In larger pieces than one message: the hash works block by block.
	if len(c.buffer) >= 16<<10 {
		c.flush()
	}
	return nil
}

func (c *checksum) flush() {
	c.hash.Write(c.buffer)
	c.buffer = reuse(c.buffer)
}

// text ends the document and returns the member's value.
func (c *checksum) text() string {
	c.buffer = append(c.buffer, `],"schema_version":1,"session":`...)
	c.buffer = append(append(c.buffer, c.session...), '}')
	c.flush()
	return checksumPrefix + hex.EncodeToString(c.hash.Sum(nil))
}

// reuse empties a buffer for the next message, and lets go of one that a single
// large message has blown up.
func reuse(buffer []byte) []byte {
	if cap(buffer) > keepCapacity {
		return nil
	}
	return buffer[:0]
}

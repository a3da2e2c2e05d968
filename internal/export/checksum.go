package export

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"strconv"

	"github.com/seed-df90f812/agentstore/repo"
)

const checksumPrefix = "sha256:"

// checksum hashes the canonical form while messages and keys of state pass. Sorted by
// name, the session follows the messages, so its form is kept until then, and the
// version of the state follows its keys.
type checksum struct {
	hash    hash.Hash
	buffer  []byte
	session []byte
	// message points to each message when it is added.
	message *repo.Message
	members []member
	first   bool
	// state points to each key of state when it is added.
	state        *repo.StateValue
	stateMembers []member
	stateVersion int64 // 0: there is no state
}

func newChecksum(session *repo.Session, linkedPlans []repo.ID, history History, message *repo.Message) (*checksum, error) {
	canonical, err := appendMembers(nil, inCanonicalForm(sessionMembers(session)))
	if err != nil {
		return nil, fmt.Errorf("session %s: %w", session.ID, err)
	}
	c := &checksum{hash: sha256.New(), session: canonical, message: message, members: inCanonicalForm(messageMembers(message)), first: true}
	c.buffer = append(c.buffer, '{')
	if !history.isEmpty() {
		c.buffer = append(c.buffer, `"history":`...)
		if c.buffer, err = appendMembers(c.buffer, historyMembers(&history)); err != nil {
			return nil, err
		}
		c.buffer = append(c.buffer, ',')
	}
	c.buffer = appendIDs(append(c.buffer, `"linked_plan_ids":`...), linkedPlans)
	c.buffer = append(c.buffer, `,"messages":[`...)
	return c, nil
}

// add adds the message to the hash.
func (c *checksum) add() (err error) {
	if !c.first {
		c.buffer = append(c.buffer, ',')
	}
	c.first = false
	if c.buffer, err = appendMembers(c.buffer, c.members); err != nil {
		return fmt.Errorf("message %d: %w", c.message.Sequence, err)
	}
	c.flushSome()
	return nil
}

// beginState ends the messages and begins the state.
func (c *checksum) beginState(version int64, state *repo.StateValue) {
	c.endMessages()
	c.buffer = append(c.buffer, `,"state":{"values":[`...)
	c.state, c.stateMembers, c.stateVersion, c.first = state, inCanonicalForm(stateMembers(state)), version, true
}

// addState adds the key of state to the hash.
func (c *checksum) addState() (err error) {
	if !c.first {
		c.buffer = append(c.buffer, ',')
	}
	c.first = false
	if c.buffer, err = appendMembers(c.buffer, c.stateMembers); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	c.flushSome()
	return nil
}

// flushSome hashes in pieces larger than one message: the hash works on blocks.
func (c *checksum) flushSome() {
	if len(c.buffer) >= 16<<10 {
		c.flush()
	}
}

func (c *checksum) flush() {
	c.hash.Write(c.buffer)
	c.buffer = reuse(c.buffer)
}

// text ends the document and returns the checksum member's value.
func (c *checksum) text() string {
	if c.stateVersion == 0 {
		c.endMessages()
	} else {
		c.buffer = append(strconv.AppendInt(append(c.buffer, `],"version":`...), c.stateVersion, 10), '}')
	}
	c.buffer = append(c.buffer, '}')
	c.flush()
	return checksumPrefix + hex.EncodeToString(c.hash.Sum(nil))
}

func (c *checksum) endMessages() {
	c.buffer = append(c.buffer, `],"schema_version":1,"session":`...)
	c.buffer = append(c.buffer, c.session...)
}

// reuse empties a buffer for the next message, or drops one that a large message
// has made too large.
func reuse(buffer []byte) []byte {
	if cap(buffer) > keepCapacity {
		return nil
	}
	return buffer[:0]
}

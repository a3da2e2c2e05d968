package document

import (
	"fmt"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

const (
	messageID = iota
	messageSequence
	messageRole
	messageContent
	messageMetadata
	messagePayload
	messageOccurredAt
	messageCreatedAt
)

var messageMembers = []member{
	messageID:         {name: "id"},
	messageSequence:   {name: "sequence"},
	messageRole:       {name: "role"},
	messageContent:    {name: "content"},
	messageMetadata:   {name: "metadata"},
	messagePayload:    {name: "payload", optional: true},
	messageOccurredAt: {name: "occurred_at", optional: true},
	messageCreatedAt:  {name: "created_at"},
}

// messageParts is a message before it is checked: one element, because that is
// what the check takes.
type messageParts struct {
	batch     [1]repo.NewMessage
	createdAt time.Time
}

func (r *Reader) readMessageObject() (repo.Message, *fault) {
	r.message = messageParts{}
	object := members{source: r.source, list: messageMembers}
	if f := object.each(r.value); f != nil {
		return repo.Message{}, f
	}
	r.source.trim()
	normal, _, err := repo.NormalizeMessages(r.message.batch[:])
	if err != nil {
		return repo.Message{}, refused(err)
	}
	message := normal[0].Stored(r.session.ID, r.count, r.message.createdAt)
	if err := r.checksum.add(&message); err != nil {
		return repo.Message{}, &fault{Reason: "has no canonical form", Err: err}
	}
	return message, nil
}

func (r *Reader) readMessageMember(i int) (f *fault) {
	m := &r.message.batch[0]
	var text []byte
	switch i {
	case messageID:
		m.ID, f = r.source.id()
	case messageSequence:
		var sequence int64
		if sequence, f = r.source.integer(); f == nil && sequence != r.count {
			f = &fault{Reason: fmt.Sprintf("is %d where %d is the next one", sequence, r.count)}
		}
	case messageRole:
		text, f = r.source.text(64)
		m.Role = roleOf(text)
	case messageContent:
		text, f = r.source.text(repo.MaxContentBytes)
		m.Content = string(text)
	case messageMetadata:
		m.Metadata, f = r.source.object(repo.MaxMetadataBytes, r.compact)
	case messagePayload:
		m.Payload, f = r.source.bytes(repo.MaxPayloadBytes)
	case messageOccurredAt:
		if m.OccurredAt, f = r.source.time(); f == nil && m.OccurredAt.IsZero() {
			f = &fault{Reason: "is the zero time; without a value the member is left out"}
		}
	case messageCreatedAt:
		r.message.createdAt, f = r.source.time()
	}
	return f
}

// roleOf saves the copy of each message's role.
func roleOf(text []byte) repo.Role {
	for _, role := range [...]repo.Role{repo.RoleUser, repo.RoleAssistant, repo.RoleTool, repo.RoleSystem} {
		if string(text) == string(role) {
			return role
		}
	}
	return repo.Role(text)
}

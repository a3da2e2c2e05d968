package esstore

import (
	"encoding/json"
	"errors"
	"iter"

	"github.com/hallgren/eventsourcing/core"

	"github.com/seed-df90f812/agentstore/repo"
)

// iterator is a [core.Iterator] on messages. It is for one goroutine.
type iterator struct {
	next  func() (repo.Message, error, bool)
	stop  func()
	begun bool // there was an event
	event core.Event
	err   error
}

func newIterator(messages iter.Seq2[repo.Message, error]) *iterator {
	next, stop := iter.Pull2(messages)
	return &iterator{next: next, stop: stop}
}

// Next reports whether Value has another event, or an error, which is the last.
func (i *iterator) Next() bool {
	if i.err != nil {
		return false
	}
	message, err, ok := i.next()
	if !ok || errors.Is(err, repo.ErrNotFound) && !i.begun { // not deleted after some events
		return false
	}
	i.begun = true
	if i.event = (core.Event{}); err == nil {
		err = json.Unmarshal(message.Payload, &i.event)
	}
	i.err = err
	return true
}

func (i *iterator) Value() (core.Event, error) { return i.event, i.err }

func (i *iterator) Close() { i.stop() }

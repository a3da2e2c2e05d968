package jsonvalue

import (
	"encoding/json"
	"errors"
)

// Merge appends an object to dst as a JSON merge patch (RFC 7396) changes it. The patch
// is an object that was checked. Members that it does not name keep their text and
// their place, with the white space around them; a changed member keeps its name and
// its place; new ones come last, in the order of the patch. The result is nested no
// deeper than the deeper of the two.
func Merge(dst, object, patch []byte) ([]byte, error) {
	if !json.Valid(object) {
		return dst, errors.New(Invalid)
	}
	s := NewScanner(patch)
	changes := s.change()
	s = NewScanner(object)
	s.Peek()
	dst = append(dst, object[:s.Pos]...)
	dst = s.merge(dst, changes)
	return append(dst, object[s.Pos:]...), nil
}

// change is a value of a merge patch.
type change struct {
	name []byte // as it is written, with its quotes
	text []byte // the value, as it is written
	// isObject, members and byName are for an object.
	isObject bool
	members  []*change
	byName   map[string]*change
	// merged: the object to be changed has a member with this name.
	merged bool
}

// change reads a value of a valid patch.
func (s *Scanner) change() *change {
	c := &change{isObject: s.Peek() == '{'}
	begin := s.Pos
	if !c.isObject {
		s.skip()
		c.text = s.text[begin:s.Pos]
		return c
	}
	c.byName = map[string]*change{}
	s.Pos++
	for first := true; s.Next('}', first); first = false {
		s.Peek()
		begin := s.Pos
		name := s.Lenient()
		written := s.text[begin:s.Pos]
		s.Colon()
		member := s.change()
		member.name = written
		c.members = append(c.members, member)
		c.byName[name] = member
	}
	return c
}

// merge appends the valid object at Pos, changed by c, which is an object.
func (s *Scanner) merge(dst []byte, c *change) []byte {
	dst = append(dst, '{')
	s.Pos++
	empty := true
	for first := true; ; first = false {
		end := s.Pos // of the value before
		if !s.Next('}', first) {
			dst = c.appendNew(dst, empty)
			return append(dst, s.text[end:s.Pos]...)
		}
		begin := s.Pos // behind the comma
		if first {
			begin = end
		}
		s.Peek()
		member := c.byName[s.Lenient()]
		s.Colon()
		isObject := s.Peek() == '{'
		value := s.Pos
		if member != nil {
			member.merged = true
		}
		if member.removes() {
			s.skip()
			continue
		}
		if !empty {
			dst = append(dst, s.text[end:begin]...) // white space and the comma
		}
		empty = false
		dst = append(dst, s.text[begin:value]...)
		switch {
		case member == nil:
			s.skip()
			dst = append(dst, s.text[value:s.Pos]...)
		case member.isObject && isObject:
			dst = s.merge(dst, member)
		default:
			s.skip()
			dst = member.appendTo(dst)
		}
	}
}

// removes reports whether the change is null.
func (c *change) removes() bool { return c != nil && string(c.text) == "null" }

// appendNew appends the members that the changed object does not have.
func (c *change) appendNew(dst []byte, empty bool) []byte {
	for _, member := range c.members {
		if member.merged || member.removes() {
			continue
		}
		if !empty {
			dst = append(dst, ',')
		}
		empty = false
		dst = append(append(dst, member.name...), ':')
		dst = member.appendTo(dst)
	}
	return dst
}

// appendTo appends the value where there was no object before: an object's members that
// are null are left out.
func (c *change) appendTo(dst []byte) []byte {
	if !c.isObject {
		return append(dst, c.text...)
	}
	return append(c.appendNew(append(dst, '{'), true), '}')
}

package document

// member is a name that an object of the document has.
type member struct {
	name     string
	optional bool
}

// members reads the members of one object, which stand in a fixed order.
type members struct {
	*source
	list   []member
	at     int // the first one that may come next
	opened bool
}

// next reads up to the value of the next member and returns its place in the
// list, or -1 after the closing brace.
func (m *members) next() (int, *fault) {
	c, f := m.peekToken()
	switch {
	case f != nil:
		return 0, f
	case !m.opened:
		if c != '{' {
			return 0, &fault{Reason: "is not an object"}
		}
		m.pos++
		if c, f = m.peekToken(); f != nil {
			return 0, f
		}
	case c == ',':
		m.pos++
		if c, f = m.peekToken(); f != nil {
			return 0, f
		}
		if c == '}' {
			return 0, &fault{Reason: "is not valid JSON"}
		}
	case c != '}':
		return 0, &fault{Reason: "is not valid JSON"}
	}
	m.opened = true
	if c == '}' {
		m.pos++
		return -1, m.skip(len(m.list))
	}
	if c != '"' {
		return 0, &fault{Reason: "is not valid JSON"}
	}
	i, f := m.name()
	if f != nil {
		return 0, f
	}
	if f := m.skip(i); f != nil {
		return 0, f
	}
	m.at = i + 1
	return i, m.expect(':')
}

// name reads a member's name and finds it. The name itself is in no error: it
// may be anything.
func (m *members) name() (int, *fault) {
	const longest = 64
	text, f := m.text(longest)
	if f != nil {
		if f.Err != nil {
			return 0, f
		}
		return 0, &fault{Reason: "has an unknown member"}
	}
	for i := m.at; i < len(m.list); i++ {
		if string(text) == m.list[i].name {
			return i, nil
		}
	}
	for _, earlier := range m.list[:m.at] {
		if string(text) == earlier.name {
			return 0, &fault{Field: earlier.name, Reason: "appears twice or out of order"}
		}
	}
	return 0, &fault{Reason: "has an unknown member"}
}

// skip passes over optional members up to the one at i.
func (m *members) skip(i int) *fault {
	for ; m.at < i; m.at++ {
		if !m.list[m.at].optional {
			return &fault{Field: m.list[m.at].name, Reason: "is missing or out of order"}
		}
	}
	return nil
}

// each reads a whole object: value reads the value of the member at i.
func (m *members) each(value func(i int) *fault) *fault {
	for {
		i, f := m.next()
		if f != nil || i < 0 {
			return f
		}
		if f := value(i); f != nil {
			return within(m.list[i].name, f)
		}
	}
}

// within puts the place of a value in front of a fault's path.
func within(place string, f *fault) *fault {
	switch {
	case f.Field == "":
		f.Field = place
	case f.Field[0] == '[' || place == "":
		f.Field = place + f.Field
	default:
		f.Field = place + "." + f.Field
	}
	return f
}

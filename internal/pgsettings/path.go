package pgsettings

import "strings"

// FirstSchema returns the first name of a search_path as PostgreSQL reads it, which is in
// lower case unless it is quoted. "$user" stands for the schema with the role's name. If
// that schema exists, user is its name; if user is empty, "$user" is skipped. FirstSchema
// returns an empty text if there is no name.
func FirstSchema(searchPath, user string) string {
	for rest := searchPath; ; {
		var name string
		name, rest = nextName(rest)
		if name == "" {
			return ""
		}
		if name != "$user" {
			return name
		}
		if user != "" {
			return user
		}
	}
}

func nextName(list string) (name, rest string) {
	list = strings.TrimLeft(list, " \t\n\r\f\v,")
	if quoted, found := strings.CutPrefix(list, `"`); found {
		var text strings.Builder
		for {
			before, after, closed := strings.Cut(quoted, `"`)
			text.WriteString(before)
			if !closed || !strings.HasPrefix(after, `"`) { // not a doubled quote
				return text.String(), after
			}
			text.WriteByte('"')
			quoted = after[1:]
		}
	}
	name, rest, _ = strings.Cut(list, ",")
	return strings.ToLower(strings.TrimSpace(name)), rest
}

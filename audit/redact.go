package audit

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/seed-df90f812/agentstore/repo"
)

// Redacted replaces a secret.
const Redacted = "[REDACTED]"

// RedactorOptions extend a Redactor. The zero value adds nothing.
type RedactorOptions struct {
	// Keys are further names of members whose values are secrets. Case and
	// separators do not matter: apiKey, API-KEY and api_key are the same.
	Keys []string
	// Patterns match further secrets, wherever they occur. How long that takes depends on
	// them: one that begins with .* is tried at each byte.
	Patterns []*regexp.Regexp
}

// Redactor removes secrets from entries. It recognizes them by the names of members,
// variables, options and headers, in JSON, in JSON within texts and in text, and by the
// formats of the keys of common providers. It is best effort: it misses secrets that are
// encoded, and secrets that neither their name nor their shape reveals. It looks at each
// byte a bounded number of times, in any text. It is safe for concurrent use.
type Redactor struct {
	keys     map[string]bool
	patterns []*regexp.Regexp
}

// NewRedactor returns a redactor for common secrets and the secrets of the options.
func NewRedactor(options RedactorOptions) *Redactor {
	r := &Redactor{keys: map[string]bool{}, patterns: slices.Clone(options.Patterns)}
	for _, key := range options.Keys {
		r.keys[normalKey(key)] = true
	}
	return r
}

// Entry returns the entry without secrets. It does not change its argument.
func (r *Redactor) Entry(e repo.AuditEntry) repo.AuditEntry {
	e.Actor, e.User, e.Project = r.Text(e.Actor), r.Text(e.User), r.Text(e.Project)
	e.Details = r.JSON(e.Details)
	return e
}

// mostNested is how deeply texts within texts are parsed as JSON.
const mostNested = 6

// shortestSecret is the length below which a text contains no secret.
const shortestSecret = 6

// Text returns the text without secrets. The result for valid JSON is valid JSON.
func (r *Redactor) Text(text string) string { return r.text(text, 0, &effort{}) }

// mostPasses bounds how often a text is searched again: removing a secret may split
// what was one word.
const mostPasses = 4

func (r *Redactor) text(text string, depth int, effort *effort) string {
	if len(text) < shortestSecret {
		return text
	}
	if depth < mostNested {
		begin := strings.TrimLeft(text[:min(len(text), 64)], " \t\r\n")
		if begin != "" && strings.ContainsRune(`{["`, rune(begin[0])) {
			effort.see(text)
			if json.Valid([]byte(text)) {
				return string(r.json([]byte(text), depth+1, effort))
			}
		}
	}
	for range mostPasses {
		clean := r.redactText(text, effort)
		if clean == text {
			break
		}
		text = clean
	}
	for _, expression := range r.patterns {
		text = expression.ReplaceAllString(text, Redacted)
	}
	return text
}

// JSON returns the document without secrets, as valid JSON. All other bytes are
// unchanged. A document that is not JSON, which no store accepts, is returned
// unchanged.
func (r *Redactor) JSON(document json.RawMessage) json.RawMessage {
	return r.document(document, &effort{})
}

func (r *Redactor) document(document json.RawMessage, effort *effort) json.RawMessage {
	effort.looked += len(document)
	if len(document) <= len("{}") || !json.Valid(document) {
		return document
	}
	return r.json(document, 0, effort)
}

// kindOf is like the function kindOf, but also knows the options' names.
func (r *Redactor) kindOf(name string) kind {
	if kind := kindOf(name); kind != plain {
		return kind
	}
	if len(r.keys) > 0 && r.keys[normalKey(name)] {
		return any_
	}
	return plain
}

// normalKey converts a key to lower case without separators.
func normalKey(key string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsLetter(c) || unicode.IsDigit(c) {
			return unicode.ToLower(c)
		}
		return -1
	}, key)
}

package audit

import (
	"regexp"
	"strings"
)

// secretKeys are names whose values are secrets. Names that end in one of
// secretSuffixes are, too. They are in their normal form: see normalKey. A bare
// suffix "token" would take max_token and next_page_token for secrets.
var secretKeys = []string{
	"auth", "authorization", "proxyauthorization", "cookie", "setcookie", "token", "pwd", "pass", "pin", "otp",
	"dsn", "databaseurl", "connectionstring", "credential", "credentials", "jwt", "bearer", "signature", "pem",
}

var secretSuffixes = []string{
	"apikey", "password", "passwd", "passphrase", "secret", "secretkey", "secretaccesskey", "privatekey", "signingkey",
	"encryptionkey", "accesskey", "accesstoken", "refreshtoken", "authtoken", "idtoken", "sessiontoken", "bearertoken",
	"apitoken", "csrftoken", "clientsecret", "webhooksecret",
}

// shortestSecret is the length below which no pattern finds anything.
const shortestSecret = 6

// pattern finds a kind of secret in a text. hints are looked for first: without
// any of them there is nothing to find, and an expression costs much more.
type pattern struct {
	hints       []string
	fold        bool // hints are in lower case, and case does not matter
	expression  *regexp.Regexp
	replacement string
}

func (p *pattern) redact(text string, has *letters) string {
	if !p.hinted(text, has) || !p.expression.MatchString(text) {
		return text
	}
	return p.expression.ReplaceAllString(text, p.replacement)
}

func (p *pattern) hinted(text string, has *letters) bool {
	for _, hint := range p.hints {
		if has.all(hint, p.fold) && (p.fold && containsFold(text, hint) || !p.fold && strings.Contains(text, hint)) {
			return true
		}
	}
	return len(p.hints) == 0
}

// letters are the bytes that a text has: one look at them saves most searches.
type letters [256]bool

func lettersOf(text string) *letters {
	var has letters
	for i := range len(text) {
		has[text[i]] = true
	}
	return &has
}

// all reports whether the text has every byte of the hint, in either case if fold.
func (l *letters) all(hint string, fold bool) bool {
	for i := range len(hint) {
		if !l[hint[i]] && (!fold || !l[hint[i]-'a'+'A']) {
			return false
		}
	}
	return true
}

// containsFold looks for an ASCII text in lower case.
func containsFold(text, hint string) bool {
	for i := 0; i+len(hint) <= len(text); i++ {
		if text[i]|0x20 == hint[0] && strings.EqualFold(text[i:i+len(hint)], hint) {
			return true
		}
	}
	return false
}

// knownPatterns are what texts with secrets look like. A replacement is never
// itself found, or found to be the same, so that redacting twice changes nothing.
var knownPatterns = []pattern{
	{hints: []string{"PRIVATE KEY"}, replacement: Redacted,
		expression: regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----(?s:.*?)(-----END [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----|\z)`)},
	{hints: []string{"bearer", "basic"}, fold: true, replacement: "$1 " + Redacted,
		expression: regexp.MustCompile(`(?i)\b(bearer|basic)\s+[a-z0-9._~+/-]{8,}=*`)},
	{hints: []string{"://"}, replacement: "$1:" + Redacted + "@",
		expression: regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://[^\s/:@?#]*):[^\s/@]+@`)},
	{hints: []string{"="}, replacement: "$1=" + Redacted,
		expression: regexp.MustCompile(`(?i)\b(password|passwd|pwd|secret|client_secret|token|access_token|refresh_token|api[_-]?key)=[^\s,;&"'\[][^\s,;&"']*`)},
	{hints: []string{"sk-"}, replacement: Redacted,
		expression: regexp.MustCompile(`\bsk-[A-Za-z0-9_-]{16,}`)},
	{hints: []string{"k_live_", "k_test_"}, replacement: Redacted,
		expression: regexp.MustCompile(`\b[rsp]k_(live|test)_[0-9A-Za-z]{10,}`)},
	{hints: []string{"AKIA", "ASIA"}, replacement: Redacted,
		expression: regexp.MustCompile(`\b(AKIA|ASIA)[0-9A-Z]{16}\b`)},
	{hints: []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"}, replacement: Redacted,
		expression: regexp.MustCompile(`\b(gh[pousr]|github_pat)_[A-Za-z0-9_]{20,}`)},
	{hints: []string{"glpat-"}, replacement: Redacted,
		expression: regexp.MustCompile(`\bglpat-[A-Za-z0-9_-]{20,}`)},
	{hints: []string{"xox"}, replacement: Redacted,
		expression: regexp.MustCompile(`\bxox[abeoprs]-[A-Za-z0-9-]{10,}`)},
	{hints: []string{"AIza"}, replacement: Redacted,
		expression: regexp.MustCompile(`\bAIza[0-9A-Za-z_-]{35}`)},
	{hints: []string{"npm_"}, replacement: Redacted,
		expression: regexp.MustCompile(`\bnpm_[A-Za-z0-9]{36}`)},
	{hints: []string{"hf_"}, replacement: Redacted,
		expression: regexp.MustCompile(`\bhf_[A-Za-z0-9]{30,}`)},
	{hints: []string{"eyJ"}, replacement: Redacted,
		expression: regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*`)},
}

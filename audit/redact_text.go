package audit

import (
	"cmp"
	"slices"
	"strings"
)

// span is a part of a text, with its replacement.
type span struct {
	from, to int
	text     string
}

// replaceSpans replaces the spans. A span takes precedence over those within it,
// and over an earlier one of the same extent. Of two that overlap, the first is
// replaced.
func replaceSpans(in []byte, spans []span) []byte {
	if len(spans) == 0 {
		return in
	}
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Or(a.from-b.from, b.to-a.to) })
	out, at := make([]byte, 0, len(in)+64), 0
	for i, s := range spans {
		if s.to <= at || i+1 < len(spans) && spans[i+1].from == s.from && spans[i+1].to == s.to {
			continue
		}
		if s.from >= at {
			out = append(append(out, in[at:s.from]...), s.text...)
		}
		at = s.to
	}
	return append(out, in[at:]...)
}

// scan finds the secrets in a text. The number of times that it looks at a byte is
// bounded, whatever the text: it searches far with cursors only (redact_cursor.go), and
// otherwise at most some hundred bytes, or what it then skips.
type scan struct {
	*effort

	redactor *Redactor
	text     string
	spans    []span
	cursors  [roles]cursor
	// named is where a name that was itself a value (name="password") ended, and
	// namedKind is the kind of the name's own value.
	named     int
	namedKind kind
	// tools are the commands with short options that the text mentions.
	tools tools
	// noEnd marks ends of elements that do not occur in the rest of the text.
	noEnd [2]bool
}

// tools are detected when the first option is found.
type tools struct{ known, curl, mysql, login, redis bool }

// value is the text after a separator. Of one that is longer than enough, text is the
// beginning, with one byte more than that.
type value struct {
	from, to int
	text     string
	quoted   bool
}

// valueOf returns a part of the text as a value.
func (s *scan) valueOf(from, to int, quoted bool) value {
	text := s.text[from:min(to, from+enough+1)]
	s.see(text)
	return value{from, to, text, quoted}
}

// take replaces a value, and returns where to continue.
func (s *scan) take(v value) int {
	if v.from < v.to {
		s.spans = append(s.spans, span{v.from, v.to, Redacted})
	}
	return v.to
}

// takeIf replaces a value if it is a secret.
func (s *scan) takeIf(secret bool, v value, otherwise int) int {
	if secret {
		return s.take(v)
	}
	return otherwise
}

// redactText returns the text without secrets.
func (r *Redactor) redactText(text string, effort *effort) string {
	s := scan{effort: effort, redactor: r, text: text, named: -1}
	s.looked += len(text)
	s.run()
	if len(s.spans) == 0 {
		return text
	}
	return string(replaceSpans([]byte(text), s.spans))
}

// run scans the text once. It does not look inside what it has found.
func (s *scan) run() {
	text, before := s.text, byte(' ')
	for i := 0; i < len(text); {
		c, next := text[i], i+1
		switch {
		case 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9':
			if isWord(before) {
				next = s.endOfName(i)
			} else {
				next = s.word(i)
			}
		case c == '=' || c == ':':
			next = s.assignment(i)
		case c == '-' && before != '-' && !isWord(before):
			next = s.option(i)
		case c == '>':
			next = s.element(i)
		case (c == '\'' || c == '"') && before == ' ':
			next = s.quotedAfterWord(i)
		case c == ',':
			next = s.listed(i)
		case c == '@':
			next = s.address(i)
		case c == '~':
			next = s.azure(i)
		}
		next = max(next, i+1)
		before, i = text[next-1], next
	}
}

// endOfName skips letters, digits and _.
func (s *scan) endOfName(i int) int {
	from := i
	for i < len(s.text) && isWord(s.text[i]) {
		i++
	}
	s.looked += i - from
	return i
}

// wordBegins has the prefixes that word looks for, by their first byte. After the
// ones in webhooks a path is a secret.
var wordBegins = func() (table [256][]string) {
	for _, begin := range append([]string{"b", "B", "PRIVATE KEY", "ENV ", "requirepass ", "masterauth ", "is ", "password ", "Private-Lines: "}, webhooks...) {
		table[begin[0]] = append(table[begin[0]], begin)
	}
	return table
}()

var webhooks = []string{
	"webhook.office.com/", "hooks.slack.com/services/", "hooks.slack.com/workflows/", "discord.com/api/webhooks/",
	"discordapp.com/api/webhooks/", "api.telegram.org/bot",
}

// word examines the beginning of a word.
func (s *scan) word(i int) int {
	rest := s.text[i:]
	if mayBeShape(rest) {
		if length := s.shapeAt(i); length > 0 {
			return s.take(value{from: i, to: i + length})
		}
	}
	v, end, secret := s.nameAndValue(i)
	if secret {
		return s.take(v)
	}
	for _, begin := range wordBegins[rest[0]] {
		if !strings.HasPrefix(rest, begin) {
			continue
		}
		behind := i + len(begin)
		switch begin {
		case "b", "B":
			return s.scheme(i)
		case "PRIVATE KEY":
			return s.privateKey(i)
		case "Private-Lines: ":
			return s.puttyKey(behind)
		case "ENV ":
			if i == 0 || s.text[i-1] == '\n' {
				return s.setting(behind)
			}
			return end
		case "requirepass ", "masterauth ":
			return s.setting(i)
		case "is ":
			return s.said(i)
		case "password ":
			return s.netrc(behind)
		}
		return s.take(s.until(webhookEnd, behind))
	}
	return end
}

// privateKey skips a private key, to its end or that of the text.
func (s *scan) privateKey(i int) int {
	near := max(0, i-30)
	begin := strings.LastIndex(s.text[near:i], "-----BEGIN ")
	if begin < 0 {
		return i + 1
	}
	to := len(s.text)
	if end := s.find(i, "-----END "); end >= 0 {
		to = end + len("-----END ")
		if line := strings.Index(s.text[to:min(len(s.text), to+60)], "-----"); line >= 0 {
			to += line + len("-----")
		}
	}
	return s.take(value{from: near + begin, to: to})
}

// puttyKey skips the private lines of a PuTTY key file, and the code that follows them. i is at
// their number.
func (s *scan) puttyKey(i int) int {
	from := i + leading(s.text[i:], digitsOnly, 4)
	if from == i || from == len(s.text) || s.text[from] != '\n' && s.text[from] != '\r' && s.text[from] != '\\' {
		return from
	}
	to := len(s.text)
	const mac = "Private-MAC: "
	if end := s.find(from, mac); end >= 0 {
		to = s.next(afterKey, end+len(mac))
	}
	return s.take(value{from: from, to: to})
}

// scheme skips "Bearer" or "Basic" and the credential after it.
func (s *scan) scheme(i int) int {
	end := s.endOfName(i)
	bearer := strings.EqualFold(s.text[i:end], "bearer")
	if !bearer && !strings.EqualFold(s.text[i:end], "basic") {
		return end
	}
	from := end + leading(s.text[end:], " ", 4)
	if from == end {
		return end
	}
	v := s.until(schemeEnd, from)
	return s.takeIf(len(v.text) >= 8 && v.text != Redacted && isToken(v.text) && (bearer || (v.to-v.from)%4 == 0), v, from)
}

// isToken reports whether a word looks generated rather than written by a person.
func isToken(token string) bool {
	if len(token) > enough {
		return true
	}
	if strings.ContainsAny(token, "[]{}$") {
		return false
	}
	if isOpaque(token) {
		return true
	}
	low, high := 0, 0
	for i := range len(token) {
		switch c := token[i]; {
		case 'a' <= c && c <= 'z':
			low++
		case 'A' <= c && c <= 'Z':
			high++
		}
	}
	return low > 2 && high > 2
}

// leading returns how many of these bytes the text begins with, at most most.
func leading(text, bytes string, most int) (count int) {
	for count < len(text) && count < most && strings.IndexByte(bytes, text[count]) >= 0 {
		count++
	}
	return count
}

// endOfWord returns the index of the first of these bytes, or the text's length.
func endOfWord(text, ends string) int {
	if at := strings.IndexAny(text, ends); at >= 0 {
		return at
	}
	return len(text)
}

// mostWithin is how many values with one end are examined. A text in which more begin is
// nobody's value: what is left of it is left out, so that hiding a secret there gains nothing.
const mostWithin = 16

// until returns the value from a position up to the first byte that ends it.
func (s *scan) until(end role, from int) value {
	to, c := s.next(end, from), &s.cursors[end]
	if to > from {
		c.asked++
	}
	switch {
	case c.asked <= mostWithin:
		return s.valueOf(from, to, false)
	case c.asked == mostWithin+1 && !endsRedacted(s.text[:to]) && !endsRedacted(s.text[:min(to+1, len(s.text))]):
		s.take(value{from: from, to: to})
	}
	return value{from: from, to: from}
}

func endsRedacted(text string) bool { return strings.HasSuffix(text, Redacted) }

// netrc handles "login u password p".
func (s *scan) netrc(from int) int {
	if !strings.Contains(s.near(max(0, from-200), from), "login ") {
		return from
	}
	v := s.until(argumentEnd, from)
	return s.takeIf(isSecret(any_, v.text), v, v.to)
}

// setting handles a name and its value with a space between them.
func (s *scan) setting(from int) int {
	to := min(s.next(keyEnd, from), from+longestName)
	name := s.near(from, to)
	if to == len(s.text) || s.text[to] != ' ' || s.redactor.kindOf(name) == plain && name != "requirepass" && name != "masterauth" {
		return to
	}
	v := s.valueAt(to)
	return s.takeIf(isSecret(any_, v.text), v, to)
}

// nameAndValue looks for "db_password x", a name of several words followed by a
// value that looks generated, or for "token x", one word followed by a long value
// of letters and digits. end is the end of the name.
func (s *scan) nameAndValue(i int) (v value, end int, secret bool) {
	text, parts := s.text, false
	for end = i; end < len(text) && isWord(text[end]) && end-i < longestName; end++ {
		parts = parts || text[end] == '_'
	}
	s.looked += end - i
	if end+6 >= len(text) || text[end] != ' ' {
		return v, end, false
	}
	switch name := text[i:end]; name {
	default:
		if !parts || s.redactor.kindOf(name) < any_ {
			break
		}
		v = s.valueAt(end)
		secret = (!v.quoted || len(v.text) >= 16 && v.to < len(text)) && len(v.text) >= 6 && isOpaque(v.text) &&
			v.text[0] != '=' && v.text[0] != '!' && s.bare(any_, v, false, true)
	case "token", "Token", "password", "Password", "secret", "passphrase":
		v = s.valueAt(end)
		secret = !v.quoted && len(v.text) >= 24 && len(v.text) <= enough && isToken(v.text) && isName("a"+v.text) &&
			(!isName(v.text) || strings.ContainsAny(v.text, digitsOnly))
	}
	return v, end, secret
}

// listed handles 'DB_PASSWORD', 'x'.
func (s *scan) listed(i int) int {
	if i < 3 || s.text[i-1] != '\'' && s.text[i-1] != '"' {
		return i + 1
	}
	name, _ := s.nameBefore(i)
	if !strings.ContainsAny(name, "_-.") || s.redactor.kindOf(name) < any_ {
		return i + 1
	}
	v := s.valueAt(i + 1)
	return s.takeIf(v.quoted && isOpaqueSecret(v.text), v, i+1)
}

// isOpaqueSecret is isSecret for places where a secret is less likely.
func isOpaqueSecret(text string) bool {
	return len(text) >= 6 && isOpaque(text) && isSecret(any_, text)
}

// said handles "the password is …".
func (s *scan) said(i int) int {
	name, _ := s.nameBefore(i)
	least := 6
	switch strings.ToLower(name) {
	case "password", "passwd", "passcode", "passphrase", "secret":
	case "token", "key":
		least = 16
	default:
		return i + 1
	}
	v := s.valueAt(i + len("is"))
	if len(v.text) <= enough {
		v.text = strings.TrimRight(v.text, ".!?")
		v.to = v.from + len(v.text)
	}
	return s.takeIf(len(v.text) >= least && isOpaqueSecret(v.text), v, i+1)
}

// nameBefore returns the name that ends before a position, perhaps in quotes, and
// where it begins.
func (s *scan) nameBefore(i int) (name string, from int) {
	text := s.text
	for n := 0; i > 0 && (text[i-1] == ' ' || text[i-1] == '\t') && n < 8; n++ {
		i--
	}
	for n := 0; i > 0 && n < 20 && strings.IndexByte(`"'\]?`+"`", text[i-1]) >= 0; n++ {
		i--
	}
	from = i
	for from > 0 && i-from < longestName {
		if c := text[from-1]; !isWord(c) && c != '-' && c != '.' && c < 0x80 {
			break
		}
		from--
	}
	return s.near(from, i), from
}

// assignment looks for a name before a = or :, and a value after it.
func (s *scan) assignment(i int) int {
	from, assigns := s.separator(i)
	if !assigns {
		return from
	}
	text, colon := s.text, s.text[i] == ':'
	name, begin := s.nameBefore(i)
	if name == "is" && colon { // the password is: x
		name, begin = s.nameBefore(begin)
	}
	if name == "" {
		return from
	}
	kind := s.redactor.kindOf(name)
	if kind == plain {
		return s.pair(name, from)
	}
	if name == "auth" && strings.HasPrefix(text[from:], "(") {
		return s.userAndPassword(from + 1)
	}
	if last := lastLetters(name); colon && (last == "cookie" || last == "authorization") && !strings.Contains(text[begin:i], `"`) {
		return s.header(from, last == "cookie")
	}
	v := s.valueAt(from)
	switch {
	case v.quoted:
		// The quote was a closing one.
		cut := v.to == len(text) && (len(v.text) <= enough && strings.Trim(v.text, " )]};,\n") == "" || v.text[0] == ' ')
		return s.takeIf(!cut && isSecret(kind, v.text), v, v.from)
	case v.text == "":
		return s.below(kind, v, colon, from)
	}
	return s.assigned(kind, v, begin, i, from)
}

// separator returns the end of a = or :, and what is like them. It separates nothing if assigns is false: then the scan goes on there.
func (s *scan) separator(i int) (from int, assigns bool) {
	text := s.text
	if from = i + 1; from >= len(text) {
		return from, false
	}
	if strings.HasPrefix(text[i:], "://") {
		return s.url(i), false
	}
	switch next := text[from]; next {
	case text[i]:
		for from < len(text) && text[from] == next {
			from++
		}
		s.looked += from - i
		return from, false
	case '>', '=': // => and :=
		from++
	}
	return from, i == 0 || strings.IndexByte("!<>=~", text[i-1]) < 0
}

// below takes a value that is not behind its name's separator, where v is empty.
func (s *scan) below(kind kind, v value, colon bool, from int) int {
	if colon {
		if block := s.block(v.to); isSecret(kind, block.text) {
			return s.take(block)
		}
	}
	declared := s.declaration(v.to)
	return s.takeIf(declared.quoted && isSecret(kind, declared.text), declared, from)
}

// assigned takes a value without quotes. Its name begins at begin, and the separator, which ends at from, is at i.
func (s *scan) assigned(kind kind, v value, begin, i, from int) int {
	text, colon := s.text, s.text[i] == ':'
	spaced := i > 0 && text[i-1] == ' '
	if !colon && !spaced && s.atLineStart(begin) { // an environment variable: up to a space
		v = s.until(argumentEnd, v.from)
	}
	if colon && begin > 0 && text[begin-1] == ':' && v.from == from &&
		(!isToken(v.text) || strings.Contains(s.near(max(0, begin-120), begin), "arn:")) {
		return from // arn:…:secret:name
	}
	if s.bare(kind, v, colon, spaced) {
		return s.take(v)
	}
	if declared := s.declaration(v.to); declared.quoted && isSecret(kind, declared.text) {
		return s.take(declared)
	}
	if v.text[0] == '$' { // ${PASSWORD:-}: there is no name inside
		if end := strings.IndexAny(s.near(v.from, v.from+100), "})"); end > 0 {
			return v.from + end
		}
	}
	return v.from
}

// userAndPassword handles 'u', 'x') as in auth=('u', 'x').
func (s *scan) userAndPassword(from int) int {
	user := s.valueAt(from)
	if !user.quoted || len(user.text) > longestName || !strings.HasPrefix(s.text[min(user.to+1, len(s.text)):], ",") {
		return from
	}
	v := s.valueAt(user.to + 2)
	return s.takeIf(v.quoted && strings.HasPrefix(s.text[min(v.to+1, len(s.text)):], ")") && isSecret(any_, v.text), v, from)
}

// block returns a YAML value that is written below its name: an indicator, then
// indented lines. i is at the indicator.
func (s *scan) block(i int) value {
	text := s.text
	line := i + leading(text[i:], "|>+-", 4)
	if line == i || line+1 >= len(text) || text[line] != '\n' || text[line+1] != ' ' {
		return value{}
	}
	indent := leading(text[line+1:], " ", len(text))
	from := line + 1 + indent
	to := from
	for to < len(text) {
		to += endOfWord(text[to:], "\n")
		next := text[min(to+1, len(text)):]
		if len(next) <= indent || leading(next, " ", indent) < indent {
			break
		}
		to++
	}
	s.looked += to - line // a long one is a secret, and skipped
	return s.valueOf(from, to, false)
}

// declaration returns the value in secretKey: string = "…".
func (s *scan) declaration(from int) value {
	rest := s.near(from, from+40)
	rest = rest[:endOfWord(rest, "\n;,{(")]
	for _, begin := range []string{"= \"", "= '"} {
		if at := strings.Index(rest, begin); at >= 0 {
			return s.valueAt(from + at + 1)
		}
	}
	return value{}
}

// lastLetters returns a name's last word in lower case.
func lastLetters(name string) string {
	at := len(name)
	for at > 0 && isWord(name[at-1]) && name[at-1] != '_' {
		at--
	}
	return strings.ToLower(name[at:])
}

// atLineStart reports whether a name begins a line, or follows export.
func (s *scan) atLineStart(i int) bool {
	if i == 0 || s.text[i-1] == '\n' {
		return true
	}
	for _, word := range []string{"export ", "set ", "env ", "ENV ", "-e "} {
		if strings.HasSuffix(s.text[:i], word) {
			return true
		}
	}
	return false
}

// valueAt reads a value. A quoted one, whose quotes may be escaped, ends at the
// same quote; if that is missing, as in a text that was cut off, it ends with the
// text.
func (s *scan) valueAt(from int) value {
	text := s.text
	from += leading(text[from:], " \t", 16)
	escapes := leading(text[from:], `\`, 16)
	quote := from + escapes
	if escapes > 0 && strings.HasPrefix(text[quote:], "u0022") || quote == len(text) || strings.IndexByte("\"'`", text[quote]) < 0 {
		return s.until(valueEnd, from)
	}
	// Of two values with the same quote and as many escapes, the second begins where the
	// first one ends, so that a byte is within a few dozen at most.
	begin, before := quote+1, 0
	for to := begin; to < len(text); to++ {
		switch text[to] {
		case '\\':
			before++
			continue
		case text[quote]:
			if before <= escapes {
				s.looked += to - begin
				return s.valueOf(begin, to-before, true)
			}
		}
		before = 0
	}
	s.looked += len(text) - begin
	return s.valueOf(begin, len(text), true)
}

// argumentAt is like valueAt, but a value without quotes ends at a space.
func (s *scan) argumentAt(from int) value {
	v := s.valueAt(from)
	if !v.quoted {
		v = s.until(argumentEnd, v.from)
	}
	return v
}

// bare reports whether a value without quotes is a secret: in a text it may also be
// code, or a word of a sentence.
func (s *scan) bare(kind kind, v value, colon, spaced bool) bool {
	text := v.text
	if strings.IndexByte("[{(", text[0]) >= 0 || begins(text, "$(", "${") {
		return false
	}
	if len(text) > enough {
		return true
	}
	if !isSecret(kind, text) || strings.HasSuffix(text, "(") {
		return false
	}
	if call := strings.IndexAny(text, "(["); call > 0 && isName(text[:call]) {
		return false
	}
	dotted := strings.Contains(text, ".")
	if isOpaque(text) && (!isName(text) || !dotted) {
		return true
	}
	if isName(text) && (spaced || dotted) {
		return false // a variable
	}
	if !colon {
		return true
	}
	// One word, and nothing after it.
	return s.lineEndsAt(v.to)
}

// lineEndsAt reports whether nothing but closing marks follows on the line.
func (s *scan) lineEndsAt(i int) bool {
	end := s.next(lineRest, i)
	return end == len(s.text) || s.text[end] == '\n'
}

// isName reports whether a text is a name in code: words separated by dots.
func isName(text string) bool {
	for i := range len(text) {
		c := text[i]
		if c|0x20 < 'a' || c|0x20 > 'z' {
			if c != '_' && (i == 0 || text[i-1] == '.' || c != '.' && (c < '0' || c > '9')) {
				return false
			}
		}
	}
	return len(text) > 0
}

// pair handles a name that is not a secret's: it may be the first half of
// name="password" value="…".
func (s *scan) pair(name string, from int) int {
	switch lastLetters(name) {
	case "name", "key", "header", "field", "variable", "id":
		if v := s.valueAt(from); (v.quoted || isName(v.text)) && len(v.text) <= longestName {
			if kind := s.redactor.kindOf(v.text); kind != plain {
				s.named, s.namedKind = v.to, kind
			}
			return v.from
		}
	case "value", "content", "default":
		if s.named < 0 || from-s.named > 80 {
			return from
		}
		s.named = -1
		v := s.valueAt(from)
		return s.takeIf(isSecret(s.namedKind, v.text) && (v.quoted || s.bare(s.namedKind, v, true, true)), v, from)
	case "code":
		v := s.valueAt(from)
		return s.takeIf(s.text[from-1] == '=' && len(v.text) >= 20 && !v.quoted && isOpaque(v.text), v, from)
	}
	return from
}

// schemes are those of the header Authorization. Those in listSchemes are followed by
// a list of quoted values.
var (
	schemes = set(`bearer basic token digest apikey negotiate ntlm hawk oauth signature hmac key jwt aws4-hmac-sha256 ssws bot splunk
		genie-key geniekey sharedkey sharedkeylite vapid`)
	listSchemes = set("digest oauth hawk signature vapid")
)

// header handles the value of Authorization or Cookie, which ends at the line's end
// or at a quote.
func (s *scan) header(from int, cookie bool) int {
	text := s.text
	spaces := leading(text[from:], " ", len(text))
	s.looked += spaces
	from += spaces
	space := min(s.next(headerWordEnd, from), from+200)
	first := s.near(from, space)
	switch {
	case first == "":
		return from
	case cookie:
		if strings.IndexByte(first, '=') <= 0 {
			return from
		}
		return s.take(s.until(headerEnd, from))
	case space == len(text) || text[space] != ' ': // there is no scheme
		if first == Redacted || !isToken(first) || len(first) < 6 {
			return from
		}
		return s.take(s.until(headerWordEnd, from))
	}
	from = space + 1
	scheme := strings.ToLower(first)
	switch {
	case has(listSchemes, scheme):
		if near := s.near(from, from+100); strings.IndexByte(near, '=') <= 0 || strings.HasPrefix(near, Redacted) {
			return from
		}
		return s.take(s.until(lineEnd, from))
	case scheme == "aws4-hmac-sha256":
		return s.take(s.until(headerEnd, from))
	}
	v := s.until(credentialEnd, from)
	credential := v.text
	if credential == "" || credential == Redacted || isReference(credential) || credential[0] == '<' {
		return from
	}
	return s.takeIf(has(schemes, scheme) && (isToken(credential) || len(credential) >= 24) || len(credential) >= 16 && isOpaque(credential), v, from)
}

// element handles the text of <password>…<.
func (s *scan) element(i int) int {
	if i > 1 && s.text[i-1] == '-' && s.text[i-2] == ' ' {
		return s.arrow(i)
	}
	if s.named >= 0 && s.named+1 == i { // <property name="password">…<
		return s.elementText(s.namedKind, i)
	}
	name, from := s.nameBefore(i)
	if name == "" || from == 0 || s.text[i-1] == ' ' || s.text[from-1] != '<' && s.text[from-1] != ':' {
		return i + 1
	}
	if kind := s.redactor.kindOf(name); kind != plain {
		return s.elementText(kind, i)
	}
	return i + 1
}

func (s *scan) elementText(kind kind, i int) int {
	from, end, which := i+1, "<", 0
	if data := "<![CDATA["; strings.HasPrefix(s.text[from:], data) {
		from, end, which = from+len(data), "]]>", 1
	}
	if s.noEnd[which] {
		return i + 1
	}
	to := s.find(from, end)
	if to < 0 {
		s.noEnd[which] = true
		return i + 1
	}
	return s.takeIf(isSecret(kind, strings.TrimSpace(s.text[from:to])), value{from: from, to: to}, to)
}

// arrow handles password -> x.
func (s *scan) arrow(i int) int {
	name, _ := s.nameBefore(i - 1)
	if i+1 >= len(s.text) || s.text[i+1] != ' ' || s.redactor.kindOf(name) < any_ {
		return i + 1
	}
	v := s.valueAt(i + 1)
	return s.takeIf(isOpaqueSecret(v.text), v, i+1)
}

// quotedAfterWord handles PASSWORD '…' and IDENTIFIED BY '…'.
func (s *scan) quotedAfterWord(i int) int {
	name, begin := s.nameBefore(i)
	if name == "" || strings.IndexByte(`"'`, s.text[i-2]) >= 0 {
		return i + 1
	}
	switch strings.ToLower(name) {
	case "password", "secret", "passphrase":
	case "by":
		if before, _ := s.nameBefore(begin); !strings.EqualFold(before, "identified") {
			return i + 1
		}
	default:
		return i + 1
	}
	v := s.valueAt(i)
	return s.takeIf(v.quoted && !strings.ContainsAny(v.text[:min(len(v.text), 100)], " ,") && isSecret(any_, v.text), v, i+1)
}

// option handles --password x, and the short options of known commands.
func (s *scan) option(i int) int {
	from := i + leading(s.text[i:], "-", 3)
	to, kind := min(s.next(dottedKeyEnd, from), from+longestName), plain
	if to > from && to < len(s.text) && strings.IndexByte(` "'`, s.text[to]) >= 0 {
		kind = s.redactor.kindOf(s.near(from, to))
	}
	if kind == plain {
		return s.shortOption(i, from, to)
	}
	at := to
	if s.text[at] != ' ' { // "--password", "x"
		between := leading(s.text[at:], `"', `, 6)
		if between < 3 {
			return to
		}
		at += between - 1
	}
	v := s.argumentAt(at)
	if strings.Trim(v.text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_]") == "" { // --password PASSWORD, as in a help text
		return v.from
	}
	return s.takeIf(v.text[0] != '-' && isSecret(kind, v.text) && (v.text[0] != '$' || v.quoted), v, v.from)
}

// userOptions are the options whose value is user:password.
var userOptions = set("user U proxy-user a")

func (s *scan) shortOption(i, from, to int) int {
	name := s.text[from:to]
	if name == "" {
		return i + 1
	}
	single := from == i+1
	attached := single && name[0] == 'p' && len(name) > 1 // -psecret
	user := has(userOptions, name) || name[len(name)-1] == 'u' && (name == "u" || attached || single && len(name) < 5)
	if !user && !attached && name != "p" && name != "b" {
		return i + 1
	}
	t := &s.tools
	if !t.known {
		speaksOf := func(one, other string) bool { return s.find(0, one) >= 0 || s.find(0, other) >= 0 }
		*t = tools{true, speaksOf("curl", "http "), speaksOf("mysql", "mariadb"), speaksOf(" login ", "sshpass"), s.find(0, "redis-cli") >= 0}
	}
	if !t.curl && !t.mysql && !t.login && !t.redis {
		return i + 1
	}
	v := s.argumentAt(to)
	switch {
	case user && t.curl:
		colon := strings.IndexByte(v.text[:min(len(v.text), 200)], ':')
		if colon > 0 && !strings.HasPrefix(v.text[colon:], "://") && isSecret(any_, v.text[colon+1:]) {
			return s.take(value{from: v.from + colon + 1, to: v.to})
		}
	case name == "b":
		return s.takeIf(t.curl && strings.IndexByte(v.text, '=') > 0 && len(v.text) > 12, v, i+1)
	case name == "p" && t.login || name == "a" && t.redis:
		return s.takeIf(to < len(s.text) && s.text[to] == ' ' && v.text != "" && v.text[0] != '-' && isSecret(any_, v.text), v, i+1)
	case attached && t.mysql && name != "port" && name != "password":
		v = s.until(argumentEnd, from+1)
		return s.takeIf(isSecret(any_, v.text), v, i+1)
	}
	return i + 1
}

// longestURL is how far the end of a URL's password is searched for.
const longestURL = 1000

// url handles the user and password of a URL. i is at its "://".
func (s *scan) url(i int) int {
	from := i + 3
	rest, _, _ := strings.Cut(s.text[from:min(len(s.text), from+longestURL)], "://")
	s.see(rest)
	rest = rest[:endOfWord(rest, " \t\r\n\"'<>\\`")]
	user := endOfWord(rest, ":/@?#")
	if user == len(rest) {
		return from
	}
	switch rest[user] {
	case '@':
		s.takeIf(isUserToken(rest[:user]), value{from: from, to: from + user}, 0)
		return from + user
	case ':':
	default:
		return from
	}
	scheme := i
	for scheme > 0 && i-scheme < 20 && (isWord(s.text[scheme-1]) || s.text[scheme-1] == '+') {
		scheme--
	}
	at := passwordEnd(rest, user+1, begins(s.text[scheme:i], "http", "git", "ws"))
	if at <= user+1 {
		return from
	}
	password := rest[user+1 : at]
	if password == Redacted || isReference(password) {
		return from + at
	}
	if slash := strings.IndexByte(password, '/'); slash >= 0 && strings.Trim(password[:slash], digitsOnly) == "" {
		return from // a port and a path
	}
	return s.take(value{from: from + user + 1, to: from + at})
}

// isUserToken reports whether the user of a URL without a password is a token, and no name.
func isUserToken(user string) bool {
	if len(user) < 16 {
		return false
	}
	if isScrambled(user) {
		return true
	}
	low, high := strings.ToUpper(user) != user, strings.ToLower(user) != user
	if len(user) < 20 && (!low || !high) || !isOpaque(user) {
		return false
	}
	for part := range strings.FieldsFuncSeq(user, func(c rune) bool { return strings.ContainsRune("-._", c) }) {
		if without := strings.TrimLeft(part, digitsOnly); without != "" && (without != part || strings.ContainsAny(part, digitsOnly)) {
			return true // of letters and digits; a name has them apart
		}
	}
	return false
}

// isScrambled reports whether the case of a text's letters changes often, as it does in a
// random one, and not in words that are written together.
func isScrambled(text string) bool {
	changes, last := 0, byte(0)
	for i := range len(text) {
		if c := text[i]; 'a' <= c|0x20 && c|0x20 <= 'z' {
			if last != 0 && (last^c)&0x20 != 0 {
				changes++
			}
			last = c
		}
	}
	return 3*changes > len(text)
}

const digitsOnly = "0123456789"

// passwordEnd finds the @ that ends a password, which may itself contain @ and /:
// one that a host follows. It is the last such @, except in URLs for browsers,
// whose paths may contain an @: there it is the first.
func passwordEnd(rest string, from int, web bool) int {
	best := -1
	for at := from; at < len(rest); at++ {
		if rest[at] == '?' && best >= 0 {
			break
		}
		if rest[at] != '@' {
			continue
		}
		length := runOf(rest[at+1:], ".[]{$}", len(rest))
		host := at + 1 + length
		if host == len(rest) || strings.IndexByte("/?#:,;)(", rest[host]) >= 0 {
			best = at
			if web {
				break
			}
		}
		at = host - 1
	}
	return best
}

// address handles user:password@tcp(…), as Go's MySQL driver writes it, and
// scott/tiger@//host, as Oracle does.
func (s *scan) address(i int) int {
	mark := ":"
	switch rest := s.text[i:]; {
	case strings.HasPrefix(rest, "@//"):
		mark = "/"
	case !begins(rest, "@tcp(", "@unix("):
		return i + 1
	}
	from := max(0, i-200)
	from += strings.LastIndexAny(s.near(from, i), " \t\n\"'=\\") + 1
	if user, password, found := strings.Cut(s.text[from:i], mark); found && isSecret(any_, password) {
		s.take(value{from: from + len(user) + 1, to: i})
	}
	return i + 1
}

// azure handles a client secret of Azure: three characters, a digit, Q~ and at
// least 31 more.
func (s *scan) azure(i int) int {
	if i < 5 || s.text[i-1] != 'Q' || s.text[i-2] < '0' || s.text[i-2] > '9' {
		return i + 1
	}
	length := runOf(s.near(i+1, i+61), ".~", 60)
	return s.takeIf(length >= 31, value{from: i - 5, to: i + 1 + length}, i+1)
}

package audit

import (
	"slices"
	"strings"
)

// span is a part of a text, and what is put in its place.
type span struct {
	from, to int
	text     string
}

// scan finds the secrets of a text. It looks at each byte a bounded number of
// times, whatever the text.
type scan struct {
	redactor *Redactor
	text     string
	spans    []span
	// named is where a name ended that stood as a value (name="password"), and
	// says what its value is.
	named     int
	namedKind kind
	// tools are commands that the text speaks of, whose options are short.
	tools tools
	// noEnd are ends of elements that do not come any more: nobody looks again.
	noEnd [2]bool
}

// tools are worked out when an option asks.
type tools struct{ known, curl, mysql, login, sshpass, redis bool }

func (s *scan) found(from, to int) {
	if from < to {
		s.spans = append(s.spans, span{from, to, Redacted})
	}
}

// redactText returns the text without secrets.
func (r *Redactor) redactText(text string) string {
	s := scan{redactor: r, text: text, named: -1}
	s.run()
	if len(s.spans) == 0 {
		return text
	}
	slices.SortStableFunc(s.spans, func(a, b span) int { return a.from - b.from })
	var out strings.Builder
	at := 0
	for _, span := range s.spans {
		if span.to <= at {
			continue
		}
		if span.from >= at {
			out.WriteString(text[at:span.from])
			out.WriteString(span.text)
		} // or it goes on where the last one ended: what stands for that is enough
		at = span.to
	}
	out.WriteString(text[at:])
	return out.String()
}

// run goes over the text once. What is found is not looked into again.
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
		case c == '-':
			if !isWord(before) && before != '-' {
				next = s.option(i)
			}
		case c == '>':
			next = s.element(i)
		case c == '\'' || c == '"':
			if before == ' ' {
				next = s.quotedAfterWord(i)
			}
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

// endOfName passes letters, digits and _.
func (s *scan) endOfName(i int) int {
	for i < len(s.text) && isWord(s.text[i]) {
		i++
	}
	return i
}

// word looks at the begin of a word.
func (s *scan) word(i int) int {
	rest := s.text[i:]
	if mayBeShape(rest) {
		if length := shapeAt(rest); length > 0 {
			s.found(i, i+length)
			return i + length
		}
	}
	end, found := s.nameAndValue(i)
	if found {
		return end
	}
	switch rest[0] {
	case 'b', 'B':
		return s.scheme(i)
	case 'P':
		if strings.HasPrefix(rest, "PRIVATE KEY") {
			return s.privateKey(i)
		}
	case 'E':
		if strings.HasPrefix(rest, "ENV ") && (i == 0 || s.text[i-1] == '\n') {
			return s.setting(i + len("ENV "))
		}
	case 'r', 'm':
		if strings.HasPrefix(rest, "requirepass ") || strings.HasPrefix(rest, "masterauth ") {
			return s.setting(i)
		}
	case 'i':
		if strings.HasPrefix(rest, "is ") {
			return s.said(i)
		}
	case 'w':
		if hook := "webhook.office.com/"; strings.HasPrefix(rest, hook) {
			to := i + endOfWord(rest, " \t\r\n\"'`<>\\)?")
			s.found(i+len(hook), to)
			return to
		}
	case 'h', 'd', 'a':
		for _, hook := range []string{"hooks.slack.com/services/", "hooks.slack.com/workflows/", "discord.com/api/webhooks/", "discordapp.com/api/webhooks/", "api.telegram.org/bot"} {
			if strings.HasPrefix(rest, hook) {
				from := i + len(hook)
				to := from + endOfWord(s.text[from:], " \t\r\n\"'`<>\\)?")
				s.found(from, to)
				return to
			}
		}
	case 'p':
		if strings.HasPrefix(rest, "password ") {
			return s.netrc(i + len("password "))
		}
	}
	return end
}

// privateKey passes from its begin to its end, or that of the text.
func (s *scan) privateKey(i int) int {
	begin := strings.LastIndex(s.text[max(0, i-30):i], "-----BEGIN ")
	if begin < 0 {
		return i + 1
	}
	begin += max(0, i-30)
	to := len(s.text)
	if end := strings.Index(s.text[i:], "-----END "); end >= 0 {
		to = i + end + len("-----END ")
		if line := strings.Index(s.text[to:min(len(s.text), to+60)], "-----"); line >= 0 {
			to += line + len("-----")
		}
	}
	s.found(begin, to)
	return to
}

// scheme passes "Bearer" or "Basic" and what comes behind.
func (s *scan) scheme(i int) int {
	rest, length := s.text[i:], len("bearer")
	bearer := len(rest) > length && strings.EqualFold(rest[:length], "bearer")
	if !bearer {
		length--
		if len(rest) <= length || !strings.EqualFold(rest[:length], "basic") {
			return i + 1
		}
	}
	from := i + length
	for from < len(s.text) && s.text[from] == ' ' && from < i+length+4 {
		from++
	}
	if from == i+length {
		return from
	}
	to := from + endOfWord(s.text[from:], " \t\r\n\"'`<>\\,;)(")
	if token := s.text[from:to]; len(token) >= 8 && token != Redacted && isToken(token) && (bearer || len(token)%4 == 0) {
		s.found(from, to)
		return to
	}
	return from
}

// isToken reports whether a word is one that no person writes.
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

// endOfWord is where the first of these bytes is, or the text's end.
func endOfWord(text, ends string) int {
	if at := strings.IndexAny(text, ends); at >= 0 {
		return at
	}
	return len(text)
}

// netrc passes "login u password p".
func (s *scan) netrc(from int) int {
	if !strings.Contains(s.text[max(0, from-200):from], "login ") {
		return from
	}
	to := from + endOfWord(s.text[from:], " \t\r\n\"'\\")
	if s.secret(any_, s.text[from:to]) {
		s.found(from, to)
	}
	return max(from, to)
}

// setting passes a name and its value, with a space between.
func (s *scan) setting(from int) int {
	to, _ := runOf(s.text[from:], "", longestName)
	to += from
	v := s.valueAt(to)
	name := s.text[from:to]
	known := s.redactor.kindOf(name) != plain || name == "requirepass" || name == "masterauth"
	if known && to < len(s.text) && s.text[to] == ' ' && s.secret(any_, v.text) {
		s.found(v.from, v.to)
		return v.to
	}
	return to
}

// nameAndValue passes db_password x: a name of several words, a space, and what no
// person writes. If that is not there end is the name's.
func (s *scan) nameAndValue(i int) (end int, found bool) {
	text := s.text
	to, parts := i, false
	for to < len(text) && isWord(text[to]) && to-i < longestName {
		parts = parts || text[to] == '_'
		to++
	}
	if to+6 >= len(text) || text[to] != ' ' {
		return to, false
	}
	if !parts { // use token …
		return s.wordAndValue(i, to)
	}
	if s.redactor.kindOf(text[i:to]) < any_ {
		return to, false
	}
	v := s.valueAt(to)
	if v.quoted && (len(v.text) < 16 || v.to == len(text)) || len(v.text) < 6 || !isOpaque(v.text) || !s.bare(any_, v, false, true) || v.text[0] == '=' || v.text[0] == '!' {
		return to, false
	}
	s.found(v.from, v.to)
	return v.to, true
}

// wordAndValue passes token x: one word, a space, and what is long and of letters and
// digits.
func (s *scan) wordAndValue(i, to int) (end int, found bool) {
	switch s.text[i:to] {
	case "token", "Token", "password", "Password", "secret", "passphrase":
	default:
		return to, false
	}
	v := s.valueAt(to)
	if v.quoted || len(v.text) < 24 || len(v.text) > enough || !isToken(v.text) || !isName("a"+v.text) || isName(v.text) && !strings.ContainsAny(v.text, digitsOnly) {
		return to, false
	}
	s.found(v.from, v.to)
	return v.to, true
}

// listed passes 'DB_PASSWORD', 'x'.
func (s *scan) listed(i int) int {
	if i < 3 || s.text[i-1] != '\'' && s.text[i-1] != '"' {
		return i + 1
	}
	name, _ := s.nameBefore(i)
	if !strings.ContainsAny(name, "_-.") || s.redactor.kindOf(name) < any_ {
		return i + 1
	}
	if v := s.valueAt(i + 1); v.quoted && len(v.text) >= 6 && isOpaque(v.text) && s.secret(any_, v.text) {
		s.found(v.from, v.to)
		return v.to
	}
	return i + 1
}

// said passes "the password is …".
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
	v.text = strings.TrimRight(v.text, ".!?")
	if len(v.text) >= least && isOpaque(v.text) && s.secret(any_, v.text) {
		s.found(v.from, v.from+len(v.text))
		return v.from + len(v.text)
	}
	return i + 1
}

func (s *scan) secret(kind kind, text string) bool { return isSecret(kind, text) }

// nameBefore is the name that ends before a place, behind a quote perhaps, and where
// it begins.
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
	return text[from:i], from
}

// assignment looks at = or : for a name before and a value behind.
func (s *scan) assignment(i int) int {
	text := s.text
	separator := text[i]
	from := i + 1
	if from >= len(text) {
		return from
	}
	if separator == ':' && strings.HasPrefix(text[i:], "://") {
		return s.url(i)
	}
	switch next := text[from]; {
	case next == '=' && separator == '=' || separator == ':' && next == ':':
		for from < len(text) && text[from] == next {
			from++
		}
		return from
	case next == '>' || next == '=': // => and :=
		from++
	}
	if i > 0 && strings.IndexByte("!<>=~", text[i-1]) >= 0 {
		return from
	}
	name, begin := s.nameBefore(i)
	if name == "" {
		return from
	}
	if name == "is" && separator == ':' { // the password is: x
		name, begin = s.nameBefore(begin)
	}
	kind := s.redactor.kindOf(name)
	if kind == plain {
		return s.pair(name, from)
	}
	if name == "auth" && strings.HasPrefix(text[from:], "(") {
		return s.userAndPassword(from + 1)
	}
	if last := lastLetters(name); separator == ':' && (last == "cookie" || last == "authorization") && !strings.Contains(text[begin:i], `"`) {
		return s.header(from, last == "cookie")
	}
	spaced := i > 0 && text[i-1] == ' '
	value := s.valueAt(from)
	if value.quoted {
		// The quote was an end.
		cut := value.to == len(text) && (strings.Trim(value.text, " )]};,\n") == "" || value.text[0] == ' ')
		if !cut && s.secret(kind, value.text) {
			s.found(value.from, value.to)
			return value.to
		}
		return value.from
	}
	if value.text == "" {
		if block := s.block(value.to); separator == ':' && s.secret(kind, block.text) {
			s.found(block.from, block.to)
			return block.to
		}
		if declared := s.declaration(value.to); declared.quoted && s.secret(kind, declared.text) {
			s.found(declared.from, declared.to)
			return declared.to
		}
		return from
	}
	if separator == '=' && !spaced && s.atLineStart(begin) { // an environment's: up to a space
		value.to = value.from + endOfWord(text[value.from:], " \t\r\n\"'\\")
		value.text = text[value.from:value.to]
	}
	if separator == ':' && begin > 0 && text[begin-1] == ':' && value.from == from &&
		(!isToken(value.text) || strings.Contains(text[max(0, begin-120):begin], "arn:")) {
		return from // arn:…:secret:name
	}
	if !s.bare(kind, value, separator == ':', spaced) {
		if declared := s.declaration(value.to); declared.quoted && s.secret(kind, declared.text) {
			s.found(declared.from, declared.to)
			return declared.to
		}
		if value.text[0] == '$' { // ${PASSWORD:-}: what is within is no name
			if end := strings.IndexAny(text[value.from:min(len(text), value.from+100)], "})"); end > 0 {
				return value.from + end
			}
		}
		return value.from
	}
	s.found(value.from, value.to)
	return value.to
}

// userAndPassword passes 'u', 'x'), as it stands in auth=('u', 'x').
func (s *scan) userAndPassword(from int) int {
	user := s.valueAt(from)
	if !user.quoted || len(user.text) > longestName || !strings.HasPrefix(s.text[min(user.to+1, len(s.text)):], ",") {
		return from
	}
	v := s.valueAt(user.to + 2)
	if !v.quoted || !strings.HasPrefix(s.text[min(v.to+1, len(s.text)):], ")") || !s.secret(any_, v.text) {
		return from
	}
	s.found(v.from, v.to)
	return v.to
}

// block is a value of YAML that stands below its name: a sign, and lines that are
// indented. i is at the sign.
func (s *scan) block(i int) value {
	text := s.text
	line := i
	for line < len(text) && line < i+4 && strings.IndexByte("|>+-", text[line]) >= 0 {
		line++
	}
	if line == i || line+1 >= len(text) || text[line] != '\n' || text[line+1] != ' ' {
		return value{}
	}
	from := line + 1
	for from < len(text) && text[from] == ' ' {
		from++
	}
	indent, to := from-line-1, from
	for to < len(text) {
		end := to + endOfWord(text[to:], "\n")
		to = end
		next := text[min(end+1, len(text)):]
		if len(next) <= indent || strings.Trim(next[:indent], " ") != "" {
			break
		}
		to++
	}
	return value{from: from, to: to, text: text[from:to]}
}

// declaration is the value in secretKey: string = "…".
func (s *scan) declaration(from int) value {
	rest := s.text[from:min(len(s.text), from+40)]
	if line := strings.IndexAny(rest, "\n;,{("); line >= 0 {
		rest = rest[:line]
	}
	for _, begin := range []string{"= \"", "= '"} {
		if at := strings.Index(rest, begin); at >= 0 {
			return s.valueAt(from + at + 1)
		}
	}
	return value{}
}

// lastLetters is a name's last word, in lower case.
func lastLetters(name string) string {
	at := len(name)
	for at > 0 && isWord(name[at-1]) && name[at-1] != '_' {
		at--
	}
	return strings.ToLower(name[at:])
}

// atLineStart reports whether a name begins a line, or stands behind export.
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

// value is what stands behind a separator.
type value struct {
	from, to int
	text     string
	quoted   bool
}

// valueAt reads a value: in quotes, which may be escaped, up to the same quote, and
// if that does not come, as in a text that was cut off, up to the end.
func (s *scan) valueAt(from int) value {
	text := s.text
	for n := 0; from < len(text) && (text[from] == ' ' || text[from] == '\t') && n < 16; n++ {
		from++
	}
	quote, escapes := from, 0
	for quote < len(text) && text[quote] == '\\' && escapes < 16 {
		quote++
		escapes++
	}
	if quote < len(text) && quote > from && strings.HasPrefix(text[quote:], "u0022") {
		escapes, quote = 0, from
	}
	if quote < len(text) && (text[quote] == '"' || text[quote] == '\'' || text[quote] == '`') {
		begin := quote + 1
		to := begin
		for to < len(text) {
			at := strings.IndexByte(text[to:], text[quote])
			if at < 0 {
				to = len(text)
				break
			}
			to += at
			before := 0
			for to-before > begin && text[to-before-1] == '\\' {
				before++
			}
			if before <= escapes {
				to -= before
				break
			}
			to++
		}
		return value{begin, to, text[begin:to], true}
	}
	to := from + endOfWord(text[from:], " \t\r\n,;&\"'`<>)}]|\\")
	return value{from, to, text[from:to], false}
}

// bare reports whether a value without quotes is a secret: in text it may be code, or
// a word of a sentence.
func (s *scan) bare(kind kind, v value, colon, spaced bool) bool {
	text := v.text
	if strings.IndexByte("[{($", text[0]) >= 0 && (text[0] != '$' || isReference(text) || strings.HasPrefix(text, "$(") || strings.HasPrefix(text, "${")) {
		return false
	}
	if len(text) > enough {
		return true
	}
	if !s.secret(kind, text) || strings.HasSuffix(text, "(") {
		return false
	}
	if call := strings.IndexByte(text, '('); call > 0 && isName(text[:call]) {
		return false
	}
	if at := strings.IndexByte(text, '['); at > 0 && isName(text[:at]) {
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
	// One word, and nothing behind it.
	rest := s.text[v.to:]
	if line := strings.IndexAny(rest[:min(len(rest), 80)], "\n"); line >= 0 {
		rest = rest[:line]
	}
	return strings.Trim(rest, " \t\r,;\"'}") == ""
}

// isName reports whether a text is a name in code: words with dots between.
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

// pair looks at a name without a secret: it may be half of name="password" value="…".
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
		kind := s.namedKind
		s.named = -1
		if v := s.valueAt(from); s.secret(kind, v.text) && (v.quoted || s.bare(kind, v, true, true)) {
			s.found(v.from, v.to)
			return v.to
		}
	case "code":
		if v := s.valueAt(from); len(v.text) >= 20 && !v.quoted && isOpaque(v.text) && s.text[from-1] == '=' {
			s.found(v.from, v.to)
			return v.to
		}
	}
	return from
}

var schemes = set(`bearer basic token digest apikey negotiate ntlm hawk oauth signature hmac key jwt aws4-hmac-sha256 ssws bot splunk
	genie-key geniekey sharedkey sharedkeylite vapid`)

// header passes the value of Authorization or Cookie, up to the line's end or a quote.
func (s *scan) header(from int, cookie bool) int {
	text := s.text
	for from < len(text) && text[from] == ' ' {
		from++
	}
	const ends = "\r\n\"'\\`"
	first := text[from:min(len(text), from+200)]
	first = first[:endOfWord(first, " "+ends)]
	if first == "" {
		return from
	}
	if cookie {
		if strings.IndexByte(first, '=') <= 0 {
			return from
		}
		to := from + endOfWord(text[from:], ends)
		s.found(from, to)
		return to
	}
	space := from + len(first)
	if space >= len(text) || text[space] != ' ' { // no scheme
		if first != Redacted && isToken(first) && len(first) >= 6 {
			to := from + endOfWord(text[from:], " "+ends)
			s.found(from, to)
			return to
		}
		return from
	}
	from = space + 1
	switch strings.ToLower(first) {
	case "digest", "oauth", "hawk", "signature", "vapid": // a list, in which values are quoted
		if near := text[from:min(len(text), from+100)]; strings.IndexByte(near, '=') > 0 && !strings.HasPrefix(near, Redacted) {
			to := from + endOfWord(text[from:], "\r\n")
			s.found(from, to)
			return to
		}
		return from
	case "aws4-hmac-sha256":
		to := from + endOfWord(text[from:], ends)
		s.found(from, to)
		return to
	}
	to := from + endOfWord(text[from:min(len(text), from+longestCredential)], " ,"+ends)
	credential := text[from:to]
	if credential == "" || credential == Redacted || isReference(credential) || strings.HasPrefix(credential, "<") {
		return from
	}
	if known := has(schemes, strings.ToLower(first)); known && (isToken(credential) || len(credential) >= 24) || len(credential) >= 16 && isOpaque(credential) {
		s.found(from, to)
		return to
	}
	return from
}

// longestCredential bounds one behind a scheme.
const longestCredential = 64 << 10

// element passes the text of <password>…<.
func (s *scan) element(i int) int {
	if i > 1 && s.text[i-1] == '-' && s.text[i-2] == ' ' {
		return s.arrow(i)
	}
	if s.named >= 0 && s.named+1 == i { // <property name="password">…<
		return s.elementText(s.namedKind, i)
	}
	name, from := s.nameBefore(i)
	if name == "" || from == 0 || i < len(name) || s.text[i-1] == ' ' {
		return i + 1
	}
	if before := s.text[from-1]; before != '<' && before != ':' {
		return i + 1
	}
	kind := s.redactor.kindOf(name)
	if kind == plain {
		return i + 1
	}
	return s.elementText(kind, i)
}

func (s *scan) elementText(kind kind, i int) int {
	from, end, which := i+1, "<", 0
	if data := "<![CDATA["; strings.HasPrefix(s.text[from:], data) {
		from, end, which = from+len(data), "]]>", 1
	}
	if s.noEnd[which] {
		return i + 1
	}
	to := strings.Index(s.text[from:], end)
	if to < 0 {
		s.noEnd[which] = true
		return i + 1
	}
	if s.secret(kind, strings.TrimSpace(s.text[from:from+to])) {
		s.found(from, from+to)
	}
	return from + to
}

// arrow passes password -> x.
func (s *scan) arrow(i int) int {
	name, _ := s.nameBefore(i - 1)
	if i+1 >= len(s.text) || s.text[i+1] != ' ' || s.redactor.kindOf(name) < any_ {
		return i + 1
	}
	v := s.valueAt(i + 1)
	if len(v.text) < 6 || !isOpaque(v.text) || !s.secret(any_, v.text) {
		return i + 1
	}
	s.found(v.from, v.to)
	return v.to
}

// quotedAfterWord passes PASSWORD '…' and IDENTIFIED BY '…'.
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
	if v := s.valueAt(i); v.quoted && !strings.ContainsAny(v.text[:min(len(v.text), 100)], " ,") && s.secret(any_, v.text) {
		s.found(v.from, v.to)
		return v.to
	}
	return i + 1
}

// option looks at --password x, and at short options of commands that are known.
func (s *scan) option(i int) int {
	from := i
	for from < len(s.text) && s.text[from] == '-' && from < i+3 {
		from++
	}
	to := from
	for to < len(s.text) && to-from < longestName && (isWord(s.text[to]) || s.text[to] == '-' || s.text[to] == '.') {
		to++
	}
	if to == from || to >= len(s.text) {
		return s.shortOption(i, from, to)
	}
	if c := s.text[to]; c != ' ' && c != '"' && c != '\'' {
		return s.shortOption(i, from, to)
	}
	kind := s.redactor.kindOf(s.text[from:to])
	if kind == plain {
		return s.shortOption(i, from, to)
	}
	at := to
	if s.text[at] != ' ' { // "--password", "x"
		for at < len(s.text) && at < to+6 && strings.IndexByte(`"', `, s.text[at]) >= 0 {
			at++
		}
		if at-to < 3 {
			return to
		}
		at--
	}
	v := s.valueAt(at)
	if !v.quoted {
		v.to = v.from + endOfWord(s.text[v.from:], " \t\r\n\"'\\")
		v.text = s.text[v.from:v.to]
	}
	if strings.Trim(v.text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_]") == "" { // --password PASSWORD, as a help has it
		return v.from
	}
	if v.text == "" || v.text[0] == '-' || !s.secret(kind, v.text) || strings.HasPrefix(v.text, "$") && !v.quoted {
		return v.from
	}
	s.found(v.from, v.to)
	return v.to
}

func (s *scan) shortOption(i, from, to int) int {
	name := s.text[from:to]
	if name == "" {
		return i + 1
	}
	switch {
	case name == "u" || name == "user" || name == "U" || name == "proxy-user" || name == "p" || name == "a" || name == "b", len(name) < 5 && name[len(name)-1] == 'u' && from == i+1,
		name[0] == 'p' && from == i+1 && len(name) > 1:
	default:
		return i + 1
	}
	if t := &s.tools; !t.known {
		*t = tools{
			known: true, curl: strings.Contains(s.text, "curl") || strings.Contains(s.text, "http "),
			mysql: strings.Contains(s.text, "mysql") || strings.Contains(s.text, "mariadb"),
			login: strings.Contains(s.text, " login "), sshpass: strings.Contains(s.text, "sshpass"), redis: strings.Contains(s.text, "redis-cli"),
		}
	}
	v := s.valueAt(to)
	if !v.quoted {
		v.to = v.from + endOfWord(s.text[v.from:], " \t\r\n\"'\\")
		v.text = s.text[v.from:v.to]
	}
	switch {
	case (name == "user" || name == "U" || name == "proxy-user" || name == "a" || name[len(name)-1] == 'u') && s.tools.curl:
		colon := strings.IndexByte(v.text[:min(len(v.text), 200)], ':')
		if colon > 0 && !strings.HasPrefix(v.text[colon:], "://") && s.secret(any_, v.text[colon+1:]) {
			s.found(v.from+colon+1, v.to)
			return v.to
		}
	case name == "b" && s.tools.curl && strings.IndexByte(v.text, '=') > 0 && len(v.text) > 12:
		s.found(v.from, v.to)
		return v.to
	case name == "p" && (s.tools.login || s.tools.sshpass) || name == "a" && s.tools.redis:
		if to < len(s.text) && s.text[to] == ' ' && v.text != "" && v.text[0] != '-' && s.secret(any_, v.text) {
			s.found(v.from, v.to)
			return v.to
		}
	case name[0] == 'p' && from == i+1 && len(name) > 1 && s.tools.mysql && name != "port" && name != "password":
		end := from + endOfWord(s.text[from:], " \t\r\n\"'\\")
		if s.secret(any_, s.text[from+1:end]) {
			s.found(from+1, end)
			return end
		}
	}
	return i + 1
}

// longestURL is how far a URL's password is looked for.
const longestURL = 1000

// url passes the user and password of a URL. i is at its "://".
func (s *scan) url(i int) int {
	from := i + 3
	rest := s.text[from:min(len(s.text), from+longestURL)]
	if again := strings.Index(rest, "://"); again >= 0 {
		rest = rest[:again]
	}
	rest = rest[:endOfWord(rest, " \t\r\n\"'<>\\`")]
	user := endOfWord(rest, ":/@?#")
	if user == len(rest) {
		return from
	}
	scheme := i
	for scheme > 0 && i-scheme < 20 && (isWord(s.text[scheme-1]) || s.text[scheme-1] == '+') {
		scheme--
	}
	web := strings.HasPrefix(s.text[scheme:i], "http") || strings.HasPrefix(s.text[scheme:i], "git") || strings.HasPrefix(s.text[scheme:i], "ws")
	switch rest[user] {
	case '@':
		if user >= 20 && isOpaque(rest[:user]) {
			s.found(from, from+user)
		}
		return from + user
	case ':':
	default:
		return from
	}
	at := passwordEnd(rest, user+1, web)
	if at < 0 || at == user+1 {
		return from
	}
	password := rest[user+1 : at]
	if password == Redacted || isReference(password) {
		return from + at
	}
	if slash := strings.IndexByte(password, '/'); slash >= 0 && strings.Trim(password[:slash], digitsOnly) == "" {
		return from // a port, and a path
	}
	s.found(from+user+1, from+at)
	return from + at
}

const digitsOnly = "0123456789"

// passwordEnd finds the @ that ends a password, which may itself hold @ and /: one
// with a host behind it. It is the last such, but the first in what browsers open,
// whose paths have @ themselves.
func passwordEnd(rest string, from int, web bool) int {
	best := -1
	for at := from; at < len(rest); at++ {
		if rest[at] == '?' && best >= 0 {
			break
		}
		if rest[at] != '@' {
			continue
		}
		host := at + 1
		for host < len(rest) && (isWord(rest[host]) || rest[host] == '.' || rest[host] == '-' || rest[host] == '[' || rest[host] == ']' || rest[host] == '{' || rest[host] == '$' || rest[host] == '}') {
			host++
		}
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

// address passes user:password@tcp(…), as Go's driver for MySQL has it, and
// scott/tiger@//host, as Oracle's do.
func (s *scan) address(i int) int {
	rest := s.text[i:]
	oracle := strings.HasPrefix(rest, "@//")
	if !oracle && !strings.HasPrefix(rest, "@tcp(") && !strings.HasPrefix(rest, "@unix(") {
		return i + 1
	}
	from := max(0, i-200)
	if space := strings.LastIndexAny(s.text[from:i], " \t\n\"'=\\"); space >= 0 {
		from += space + 1
	}
	mark := ":"
	if oracle {
		mark = "/"
	}
	if colon := strings.Index(s.text[from:i], mark); colon >= 0 && s.secret(any_, s.text[from+colon+1:i]) {
		s.found(from+colon+1, i)
	}
	return i + 1
}

// azure passes a client secret: three characters, a digit, Q~ and 31 and more.
func (s *scan) azure(i int) int {
	if i < 5 || s.text[i-1] != 'Q' || s.text[i-2] < '0' || s.text[i-2] > '9' {
		return i + 1
	}
	length, _ := runOf(s.text[i+1:], ".~", 60)
	if length < 31 {
		return i + 1
	}
	s.found(i-5, i+1+length)
	return i + 1 + length
}

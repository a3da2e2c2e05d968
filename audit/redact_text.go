package audit

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// span is a part of a text, with its replacement.
type span struct {
	from, to int
	text     string
}

// replaceSpans replaces the spans. A span takes precedence over spans within it,
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

// effort counts the bytes that a redaction looks at. An expression that a word or a window is
// matched with counts it once: RE2 reads each byte once.
type effort struct{ looked int }

func (e *effort) see(text string) { e.looked += len(text) }

// scan finds the secrets in a text. It takes the text word by word: each one for itself, and, if it
// is the name of a secret, with what joins a value to it. It looks at most some hundred bytes ahead,
// or skips what it has looked at; the ends of values are found once (until).
type scan struct {
	*effort

	redactor *Redactor
	text     string
	spans    []span
	options  *regexp.Regexp // of the last command: see commands
	// end is the end of the last value, and asked is how many values had it.
	end, asked int
}

// value is a part of the text. Of one without quotes that is longer than longest, text is the
// beginning, and ends are the bytes that its end is found by.
type value struct {
	from, to int
	text     string
	quoted   bool
	ends     string
}

// near returns a part of the text that is short, or skipped then.
func (s *scan) near(from, to int) string {
	part := s.text[max(from, 0):min(to, len(s.text))]
	s.see(part)
	return part
}

// takeIf replaces a value if it is a secret, and returns where to continue.
func (s *scan) takeIf(secret bool, v value, otherwise int) int {
	if !secret || v.from >= v.to {
		return otherwise
	}
	if v.ends != "" && len(v.text) > longest {
		more := endOf(s.text[v.to:], v.ends)
		v.to += more
		s.looked += more
	}
	s.spans = append(s.spans, span{v.from, v.to, Redacted})
	return v.to
}

// redactText returns the text without secrets.
func (r *Redactor) redactText(text string, effort *effort) string {
	s := scan{effort: effort, redactor: r, text: text}
	s.see(text)
	if strings.Contains(text, "@tcp(") || strings.Contains(text, "@unix(") {
		s.looked += 2 * len(text)
		for _, m := range driverPassword.FindAllStringSubmatchIndex(text, -1) {
			s.takeIf(isSecret(any_, text[m[2]:m[3]]), value{from: m[2], to: m[3]}, 0)
		}
	}
	for i := 0; i < len(text); {
		to := i
		for to < len(text) && wordBytes[text[to]] {
			to++
		}
		switch {
		case to > i:
			i = max(s.word(i, to), to)
		case strings.HasPrefix(text[i:], "://"):
			i = s.url(i + len("://"))
		default:
			i++
		}
	}
	if len(s.spans) == 0 {
		return text
	}
	return string(replaceSpans([]byte(text), s.spans))
}

// driverPassword is behind a user, as Go's driver of MySQL writes an address. A match ends at most 140 bytes behind its
// begin.
var driverPassword = regexp.MustCompile(`[^\s"'=\\:/@]{1,64}:([^\s"'=\\]{1,64}?)@(?:tcp|unix)\(`)

// wordBytes are what words, names and most keys consist of.
var wordBytes = func() (table [256]bool) {
	for c := range table {
		table[c] = c >= 0x80 || strings.IndexByte(letters+digitsOnly+"_-.~", byte(c)) >= 0
	}
	return table
}()

// word examines a word, and returns where to continue.
func (s *scan) word(from, to int) int {
	word := s.near(from, to)
	if v, found := s.shape(from, to); found {
		return s.takeIf(true, v, to)
	}
	known := phrases()
	for i := range known {
		p := &known[i]
		if strings.HasPrefix(s.text[to:], p.behind) && strings.EqualFold(word[max(0, len(word)-len(p.end)):], p.end) {
			if end := s.phrase(p.expression, from); end > to {
				return end
			}
		}
	}
	if expression, is := commands[word]; is {
		s.options = expression
	}
	if word[0] == '-' && s.options != nil {
		if end := s.phrase(s.options, from); end > to {
			return end
		}
	}
	if strings.EqualFold(word, "bearer") || strings.EqualFold(word, "basic") {
		v := s.valueAt(to, valueEnd)
		follows, isWhole := v.from > to && v.from <= to+4, len(word) > len("basic") || (v.to-v.from)%4 == 0
		if follows && isWhole && len(v.text) >= 8 && isToken(v.text) {
			return s.takeIf(true, v, to)
		}
	}
	kind := s.redactor.kindOf(word)
	if word == "code" || word == "key" { // code=x in a URL, and the key is x
		kind = lengthy
	}
	if kind == plain {
		return to
	}
	return s.named(kind, word, from, to)
}

// mostBehind is how far the expressions of phrases look before they fail.
const mostBehind = 80

// phrase takes the group of an expression, and returns where to continue, or zero.
func (s *scan) phrase(expression *regexp.Regexp, from int) int {
	m := expression.FindStringSubmatchIndex(s.text[from:])
	if m == nil {
		s.looked += mostBehind
		return 0
	}
	s.looked += m[1]
	at := group(m)
	v := value{from: from + m[at], to: from + m[at+1], text: s.text[from+m[at] : from+m[at+1]]}
	return s.takeIf(isSecret(phrase, v.text), v, 0)
}

// group returns where the first group that matched is in the indexes.
func group(matched []int) int {
	at := 2
	for matched[at] < 0 {
		at += 2
	}
	return at
}

// A phrase is what comes before a secret, or what a secret begins with.
type phraseOf struct {
	end, behind string         // how the last word ends, and what is behind it
	expression  *regexp.Regexp // from that word on. The group is the secret
}

var phrases = sync.OnceValue(func() (all []phraseOf) {
	const path = "([^\\s\"'`<>\\\\)?]+)"
	for _, p := range [][3]string{
		{"-----BEGIN", " ", `^([\w.-]+ [A-Z0-9 ]{0,30}PRIVATE KEY(?s:.*?-----END [^\n]{0,60}?-----|.*))`},
		{"Private-Lines", ": ", `^[\w.-]+: \d{1,4}((?s:[\r\n\\].*?Private-MAC: [0-9a-f]+|[\r\n\\].*))`},
		{"login", " ", `^[\w.-]+ \S{1,40} password (\S+)`},
		{"requirepass", " ", `^[\w.-]+ ["']?([^\s"']+)`},
		{"masterauth", " ", `^[\w.-]+ ["']?([^\s"']+)`},
		{"identified", " ", `^[\w.-]+ (?:by|BY) ["']([^\s"',]+)`},
		{"auth", "=('", `^[\w.-]+=\('[^'\n]{0,24}', ?'([^'\n]{1,40})'\)`},
		{"auth", `=("`, `^[\w.-]+=\("[^"\n]{0,24}", ?"([^"\n]{1,40})"\)`},
		{"hooks.slack.com", "/", `^[\w.-]+/(?:services|workflows)/` + path},
		{"discord.com", "/", `^[\w.-]+/api/webhooks/` + path},
		{"discordapp.com", "/", `^[\w.-]+/api/webhooks/` + path},
		{"webhook.office.com", "/", `^[\w.-]+/` + path},
		{"api.telegram.org", "/", `^[\w.-]+/bot` + path},
		{"", ":AA", `^(\d{8,10}:AA[\w-]{33,})`},
		{"1", "//0", `^(1//0[\w-]{30,})`},
	} {
		all = append(all, phraseOf{p[0], p[1], regexp.MustCompile(p[2])})
	}
	return all
})

// A shape is how a provider's key begins, and at least what follows.
type shape struct {
	prefix     string
	expression *regexp.Regexp
}

// shapes are indexed by the first two bytes. They are made when a redaction first needs them, as phrases are: most
// programs that import the package never do. Each expression looks at most windowOfShape bytes ahead.
var shapes = sync.OnceValue(func() map[string][]shape {
	all := map[string][]shape{}
	for expression, prefixes := range map[string]string{
		`[\w-]{10}`: `sk_live_ sk_test_ rk_live_ rk_test_ pk_live_ pk_test_ xoxa- xoxb- xoxe- xoxo- xoxp- xoxr-
			xoxs- xoxc- xapp- sk_prod_ sk_org_live_ sk_org_test_`,
		`[\w-]{12}`: "rzp_live_ FLWSECK FLWSECK_TEST-",
		`[\w-]{15}`: "NRJS- tskey- sk- LTAI",
		`[\w-]{20}`: `ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ gldt- glrt- gloas- glcbt- glptt- glft- glsoat- glimt-
			glagent- GOCSPX- shpat_ shpca_ shppa_ shpss_ sq0atp- sq0csp- sq0idp- lin_api_ NRAK- NRII- dckr_pat_
			dckr_oat_ sb_secret_ aio_ tvly- vercel_ ctx7sk-`,
		`[\w-]{28}`: `ATBB npm_ hf_ api_org_ pypi- ntn_ figd_ PMAK- r8_ sbp_ glsa_ sntryu_ phx_ phc_ duffel_live_
			duffel_test_ HRKU- pnu_ shippo_live_ shippo_test_ AQVN AKID fo1_ atlasv1. lsv2_ pat-na1- pat-eu1- gitea_
			wandb_v1_ cfut_ e2b_ nfp_ bkua_ ddp_`,
		`[\w-]{32}`: "dapi cio ico- AIza AQ.",
		`[\w-]{40}`: `dop_v1_ doo_v1_ dor_v1_ secret_ AGE-SECRET-KEY-1 gsk_ xai- pplx- nvapi- xkeysib- xsmtpsib-
			pul- rubygems_ sgp_ CFPAT- CLOJARS_ jina_`,
		`[\w-]{50}`:                      "EAAA EAAC EZAK EZTK AKCp rdme_",
		`[\w.-]{10}`:                     "xoxe.",
		`[\w.-]{20}`:                     "glpat- ya29. hvs. hvb. hvr.",
		`[\w.-]{30}`:                     "dp.pt. dp.st. dp.ct. dp.sa. pscale_tkn_ pscale_pw_ pscale_oauth_",
		`[\w.-]{40}`:                     "SG. tfp_ dt0c01. dt0s01.",
		`[\w.~+/=%-]{30}`:                "whsec_ xoxd- glc_ sntrys_ fm2_ fm1r_ ATATT3 ATCTT3 fio-u- ops_eyJ",
		`[\w+/]{70}`:                     "MII",
		`[A-Z0-9]{16}\b`:                 "AKIA ASIA ABIA ACCA",
		`[0-9a-f]{32}\b`:                 "SK key-",
		`[0-9a-f]{24}-[0-9a-f]{16}`:      "v1.0-", // Cloudflare's, for an origin
		`[A-Za-z0-9]{20,60}(?:[^\w-]|$)`: "fw_",
	} {
		compiled := regexp.MustCompile("^" + expression)
		for prefix := range strings.FieldsSeq(prefixes) {
			all[prefix[:2]] = append(all[prefix[:2]], shape{prefix, compiled})
		}
	}
	return all
})

const (
	// windowOfShape is how much of a key is looked at until it is one.
	windowOfShape = 80
	// shortestShape is the length of a word below which no shape is in it.
	shortestShape = 15
)

// rareShapes are shapes that begin with anything. Each is looked for in words with a text that it contains.
var rareShapes = []struct {
	contained  string
	expression *regexp.Regexp
}{
	{"eyJ", regexp.MustCompile(`eyJ[\w-]{7,}\.[\w-]{10,}\.`)},                // a JSON web token
	{".", regexp.MustCompile(`\b[MNO][\w-]{22,27}\.[\w-]{6}\.[\w-]{27}`)},    // a bot: number, time, hash
	{"_", regexp.MustCompile(`\b[123][A-Za-z0-9]{26}_[A-Za-z0-9]{20,24}\b`)}, // ngrok's: a time and random bytes, twice
	{"-us", regexp.MustCompile(`\b[0-9a-f]{32}-us\d`)},                       // followed by a region
	{"Q~", regexp.MustCompile(`\b\w{3}\dQ~[\w.~-]{31}`)},                     // a client secret of Azure
}

var (
	scrambled = `(?:[a-z]{1,2}[A-Z]{1,2}){4}`
	// random is in a key, and in nothing that a person has named: a digit, letters whose case changes often, or
	// capitals only.
	random = regexp.MustCompile(`\d|^[A-Z]{16}|` + scrambled)
)

// shape returns the provider's key in a word, from where it begins.
func (s *scan) shape(from, to int) (v value, found bool) {
	if to-from < shortestShape && (to == len(s.text) || strings.IndexByte("+/=%", s.text[to]) < 0) {
		return v, false
	}
	word := strings.TrimRight(s.near(from, to), ".")
	v = value{to: from + len(word)}
	keys := shapes()
	for i := range max(len(word)-2, 0) {
		if i > 0 && strings.IndexByte("-.~", word[i-1]) < 0 {
			continue
		}
		for _, shape := range keys[word[i:i+2]] {
			if begin := from + i + len(shape.prefix); strings.HasPrefix(word[i:], shape.prefix) {
				end := begin + len(shape.expression.FindString(s.near(begin, begin+windowOfShape)))
				if end > begin && random.MatchString(s.near(begin, max(end, min(end+40, v.to)))) {
					v.from, v.to = from+i, end+leading(s.text[end:], wideBytes, len(s.text))
					v.to -= len(s.text[:v.to]) - len(strings.TrimRight(s.text[:v.to], "."))
					return v, true
				}
			}
		}
	}
	for _, shape := range rareShapes {
		if strings.Contains(word, shape.contained) {
			s.see(word)
			if m := shape.expression.FindStringIndex(word); m != nil {
				v.from = from + m[0]
				return v, true
			}
		}
	}
	return v, false
}

// wideBytes are what some keys consist of.
const wideBytes = letters + digitsOnly + "_.~+/=%-"

// connectors join a value to its name. The groups are in the order of the ways.
var connectors = regexp.MustCompile("^(?:" + strings.Join([]string{
	"([\"'\\]\\\\`?)]{0,16}[ \t]{0,8}(?:=>|:=|=|:))(?:[^=:]|$)",
	`(["'], ?)["']`, `(["']? -> )`, `( is:? )`, `(,? +)["']`,
	`((?:["'],)? +)[^ ]`,
}, "|") + ")")

// way is how a value is joined to its name.
type way int

const (
	assigned way = iota // name: value
	listed              // 'name', 'value'
	arrow               // name -> value
	said                // name is value
	cited               // name 'value'
	spaced              // name value
)

var (
	restOfTag = regexp.MustCompile(`^(?: \w[^<>]{0,60})?>`)
	// nameOf is what comes before a name that is itself a value, and valueOfName what comes after it.
	nameOf = regexp.MustCompile(`(?:[nN]ame|[kK]ey|[hH]eader|[fF]ield|[vV]ariable|[iI]d)` +
		`["'\\]{0,4}[ \t]{0,3}[=:]$`)
	valueOfName = regexp.MustCompile(`(?i)^(?:["'\\]{0,4}[,;\s][^<>]{0,60}?\b(?:value|content|default)["'\\]{0,4}` +
		`[ \t]?[=:]|` +
		`["'][^<>]{0,40}(>))`)
)

// named takes the value of a secret's name.
func (s *scan) named(kind kind, name string, from, to int) int {
	behind := s.near(to, to+64)
	before := strings.TrimRight(s.near(from-20, from), "\"'\\ \t")
	if (strings.HasSuffix(before, "=") || strings.HasSuffix(before, ":")) && nameOf.MatchString(before) {
		if m := valueOfName.FindStringSubmatchIndex(behind); m != nil && m[2] >= 0 {
			return max(s.elementText(kind, to+m[1]), to)
		} else if m != nil {
			v := s.valueAt(to+m[1], valueEnd)
			return s.takeIf(isSecret(kind, v.text) && (v.quoted || s.bare(kind, v, true, true)), v, to)
		}
	}
	if from > 0 && strings.IndexByte("<:", s.text[from-1]) >= 0 {
		if tag := restOfTag.FindString(behind); tag != "" {
			if end := s.elementText(kind, to+len(tag)); end > 0 {
				return end
			}
		}
	}
	m := connectors.FindStringSubmatchIndex(behind)
	if m == nil {
		return to
	}
	by := way(group(m)/2 - 1)
	at, option := to+m[2*by+3], name[0] == '-'
	switch {
	case by == assigned:
		return s.assigned(kind, name, behind[:m[3]], from, at)
	case option && (by == cited || by == spaced || by == listed):
		v := s.valueAt(at, argumentEnd)
		helps := strings.Trim(v.text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_]") == "" // --password PASSWORD, as in a help text
		return s.takeIf(!helps && v.text[0] != '-' && isSecret(kind, v.text) && (v.text[0] != '$' || v.quoted), v, to)
	}
	v := s.valueAt(at, valueEnd)
	if len(v.text) <= longest && !v.quoted {
		v.text = strings.TrimRight(v.text, ".!?")
		v.to = v.from + len(v.text)
	}
	least := 6
	switch {
	case by == spaced && !strings.Contains(name, "_"):
		least = 24
	case kind < any_:
		least = 16
	}
	secret := len(v.text) >= least && isOpaque(v.text) && isSecret(any_, v.text)
	secret = secret && name != "code" && (name != "key" || by == said) &&
		(by != spaced || strings.IndexByte("=!", v.text[0]) < 0 && s.bare(any_, v, false, true))
	return s.takeIf(secret, v, to)
}

// mostIndirect is how far indirect looks before it fails.
const mostIndirect = 40

// indirect is a value that a type is before, secretKey: string = "…", or that is below its name: lines without names
// in YAML.
var indirect = regexp.MustCompile(`^(?:[\w&<>\[\]: ]{0,30}= ?(["'])|` +
	`[ \t]{0,3}[|>][+-]{0,2}\n\s{1,30}([^\n]+(?:\n[ \t]+[^\n:]+$)*))`)

// assigned takes a value behind = or :, as in an environment, a header, YAML, a query or code.
func (s *scan) assigned(kind kind, name, by string, from, at int) int {
	colon, spaced, rest, to := strings.HasSuffix(by, ":"), strings.Contains(by, " "), s.text[at:], from+len(name)
	switch {
	// A URL, and ${NAME:-default}.
	case name == "key", colon && (strings.HasPrefix(rest, "//") || strings.HasPrefix(rest, "-")):
		return to
	case colon && !strings.Contains(by, `"`):
		switch last := strings.ToLower(name[strings.LastIndexAny(name, "-_.")+1:]); last {
		case "cookie", "authorization":
			return s.header(at, last == "cookie")
		}
	}
	end := valueEnd
	if !colon && !spaced && s.atLineStart(from) { // an environment variable: up to a space
		end = argumentEnd
	}
	v := s.valueAt(at, end)
	switch {
	case name == "code" && (colon || len(v.text) < 20):
	case by == ":" && from > 0 && s.text[from-1] == ':' && v.from == at: // arn:…:secret:name
	case v.quoted:
		// The quote was a closing one.
		isRest := len(v.text) <= enough && strings.Trim(v.text, " )]};,\n") == "" || v.text[0] == ' '
		cut := v.to == len(s.text) && isRest
		return s.takeIf(!cut && isSecret(kind, v.text), v, to)
	case v.text != "" && s.bare(kind, v, colon, spaced):
		return s.takeIf(true, v, to)
	default:
		m := indirect.FindStringSubmatchIndex(rest)
		switch s.looked += mostIndirect; {
		case m == nil:
			return to
		case m[2] >= 0:
			v = s.valueAt(at+m[2], valueEnd)
		default:
			v = value{from: at + m[4], to: at + m[5], text: s.near(at+m[4], at+m[5])}
		}
		return s.takeIf(isSecret(kind, v.text), v, to)
	}
	return to
}

// atLineStart reports whether a name begins a line, or follows export.
func (s *scan) atLineStart(i int) bool {
	return i == 0 || s.text[i-1] == '\n' || exports.MatchString(s.near(i-7, i))
}

var exports = regexp.MustCompile(`(?:export|set|env|ENV|-e) $`)

// leading returns how many of these bytes the text begins with, at most most.
func leading(text, bytes string, most int) (count int) {
	for count < len(text) && count < most && strings.IndexByte(bytes, text[count]) >= 0 {
		count++
	}
	return count
}

// endOf returns the index of the first of these bytes, or the text's length.
func endOf(text, ends string) int {
	if at := strings.IndexAny(text, ends); at >= 0 {
		return at
	}
	return len(text)
}

// The bytes that values end at.
const (
	valueEnd    = " \t\r\n,;&\"'`<>)}]|\\" // without quotes
	argumentEnd = " \t\r\n\"'\\"           // on a command line
	headerEnd   = "\r\n\"'\\`"
)

// mostWithin is how many values with one end are examined. A text in which more begin is no
// real value: the rest of it is left out, so that hiding a secret there gains nothing.
const mostWithin = 16

// longest is the length above which a value without quotes is a secret without a closer look.
const longest = 128

// until returns the value from a position up to the first byte that ends it.
func (s *scan) until(ends string, from int) value {
	text := s.text[from:min(from+longest+1, len(s.text))]
	v := value{from: from, to: from + endOf(text, ends), ends: ends}
	v.text = s.near(from, v.to)
	if v.to != s.end {
		s.end, s.asked = v.to, 0
	}
	if v.to > from {
		s.asked++
	}
	if s.asked <= mostWithin {
		return v
	}
	before := s.text[:min(v.to+1, len(s.text))]
	if s.asked == mostWithin+1 && !strings.HasSuffix(s.text[:v.to], Redacted) && !strings.HasSuffix(before, Redacted) {
		s.takeIf(true, v, 0)
	}
	return value{from: from, to: from}
}

// valueAt reads a value. A quoted one, whose quotes may be escaped, ends at the
// same quote; if that is missing, as in a text that was cut off, it ends with the
// text.
func (s *scan) valueAt(from int, ends string) value {
	text := s.text
	from += leading(text[from:], " \t", 16)
	begin := from + leading(text[from:], `\`, 16) + 1
	if begin > len(text) || strings.IndexByte("\"'`", text[begin-1]) < 0 {
		return s.until(ends, from)
	}
	// Of two values with the same quote and as many escapes, the second begins where the
	// first one ends, so that a byte is within a few dozen at most.
	quote, to := text[from:begin], begin
	for to < len(text) {
		at := strings.Index(text[to:], quote)
		if at < 0 {
			to = len(text)
		} else if to += at; text[to-1] != '\\' {
			break
		} else {
			to += len(quote)
		}
	}
	s.looked += to - begin
	return value{from: begin, to: to, text: text[begin:min(to, begin+enough+1)], quoted: true}
}

// isToken reports whether a word looks generated rather than written by a person.
func isToken(token string) bool {
	if len(token) > longest || strings.ContainsAny(token, "[]{}$") || token == Redacted {
		return len(token) > longest
	}
	return isOpaque(token) || mixed.MatchString(token)
}

var (
	mixed  = regexp.MustCompile(`^[^A-Z]*[A-Z].*[a-z].*[A-Z].*[a-z].*[A-Z].*[a-z]`)
	inCode = `[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*`
	// names are names in code, words separated by dots, and calls are what begins with one and a bracket.
	names = regexp.MustCompile(`^` + inCode + `\.?$`)
	calls = regexp.MustCompile(`^(?:[\[({]|\$[({]|` + inCode + `[(\[])|\($`)
)

// bare reports whether a value without quotes is a secret: in a text it may also be
// code, or a word of a sentence.
func (s *scan) bare(kind kind, v value, colon, spaced bool) bool {
	if len(v.text) <= longest && !isSecret(kind, v.text) || calls.MatchString(v.text) {
		return false
	}
	dotted, isName := strings.Contains(v.text, "."), names.MatchString(v.text)
	switch {
	case len(v.text) > longest, isOpaque(v.text) && (!isName || !dotted):
		return true
	case isName && (spaced || dotted): // a variable
		return false
	}
	// One word, and nothing but closing marks after it.
	end := v.to + leading(s.text[v.to:], " \t\r,;\"'}", 40)
	return !colon || end == len(s.text) || s.text[end] == '\n'
}

// authorizations are values of the header Authorization. The group is where a list begins, or one credential.
var authorizations = regexp.MustCompile(`^(?:` +
	`(?i:digest|oauth|hawk|signature|vapid|aws4-hmac-sha256) ()[^\[]+=|(?:[\w-]+ )?()[^ ,]{6,})`)

// header handles the value of Authorization or Cookie, which ends at the line's end
// or at a quote.
func (s *scan) header(from int, cookie bool) int {
	v := s.until(headerEnd, from+leading(s.text[from:], " ", 16))
	if cookie {
		name, _, found := strings.Cut(v.text, "=")
		return s.takeIf(found && name != "" && !strings.Contains(name, " "), v, from)
	}
	m := authorizations.FindStringSubmatchIndex(v.text)
	switch {
	case m == nil:
		return from
	case m[2] >= 0: // a list, whose values are in quotes
		v.from += m[2]
		v.to += endOf(s.text[v.to:], "\r\n")
		return s.takeIf(true, v, from)
	}
	v = s.until(valueEnd, v.from+m[4])
	return s.takeIf(isToken(v.text), v, from)
}

// elementText takes the text of <password>…<, and returns where it ends, or zero.
func (s *scan) elementText(kind kind, from int) int {
	if data := "<![CDATA["; strings.HasPrefix(s.text[from:], data) {
		from += len(data)
	}
	v := s.until("<", from)
	return s.takeIf(v.to < len(s.text) && isSecret(kind, strings.TrimSuffix(strings.TrimSpace(v.text), "]]>")), v, 0)
}

// commands are the commands with short options for passwords, and what these look like.
var commands = words(map[string]*regexp.Regexp{
	"curl http": regexp.MustCompile(`^(?:-(?:\w{0,3}[uU]|a|-user|-proxy-user)[ =](?:["'][^\s"':]{0,40}:([^"'\n]+)|` +
		`[^\s"':]{0,40}:([^\s"'\\/][^\s"'\\]*))` +
		`|-b ["']?([^\s"'=]{1,40}=[^\s"']+))`),
	"mysql mysqldump mysqladmin mariadb": regexp.MustCompile(`^-p["']?([^\s"'\\]+)`),
	"login sshpass":                      regexp.MustCompile(`^-p ?["']?([^\s"'\\-][^\s"'\\]*)`),
	"redis-cli":                          regexp.MustCompile(`^-a ["']?([^\s"'\\-][^\s"'\\]*)`),
})

// longestURL is how far the end of a URL's password is searched for.
const longestURL = 1000

// In a URL the password ends at an @ that a host follows: the first one if the URL is for browsers, whose path may
// contain an @, and otherwise the last one, since the password may contain @ and /. A user without a password that
// looks generated is a token.
var (
	webPassword   = regexp.MustCompile(`^[^:/@?#]*:(.+?)@[\w.\[\]{$}-]*(?:[/?#:,;)(]|$)`)
	otherPassword = regexp.MustCompile(`^[^:/@?#]*:([^?]+)@[\w.\[\]{$}-]*(?:[/?#:,;)(]|$)`)
	userToken     = regexp.MustCompile(`^([^:/@?#]{16,})@`)
	webScheme     = regexp.MustCompile(`(?:http|git|ws)[a-z+]*://$`)
	port          = regexp.MustCompile(`^\d*/`)
	// randomUser has digits between letters, or letters whose case changes often.
	randomUser = regexp.MustCompile(`[A-Za-z]\d+[A-Za-z]|^\d+[A-Za-z]|` + scrambled)
)

// url handles the user and password of a URL. i is behind its "://".
func (s *scan) url(i int) int {
	rest, _, _ := strings.Cut(s.text[i:min(len(s.text), i+longestURL)], "://")
	rest = rest[:endOf(rest, " \t\r\n\"'<>\\`")]
	s.see(rest)
	expression := otherPassword
	if webScheme.MatchString(s.near(i-12, i)) {
		expression = webPassword
	}
	if m := expression.FindStringSubmatchIndex(rest); m != nil {
		password := rest[m[2]:m[3]]
		secret := password != Redacted && !reference.MatchString(password) && !port.MatchString(password)
		return s.takeIf(secret, value{from: i + m[2], to: i + m[3]}, i)
	}
	if m := userToken.FindStringSubmatchIndex(rest); m != nil {
		return s.takeIf(randomUser.MatchString(rest[:m[3]]), value{from: i, to: i + m[3]}, i)
	}
	return i
}

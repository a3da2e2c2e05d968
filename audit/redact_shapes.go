package audit

import (
	"regexp"
	"strings"
)

// shape describes a provider's keys: a prefix, followed by at least least
// characters, a digit among them; one of GitLab's is short enough to have none.
type shape struct {
	prefix string
	least  int
	// end searches for the end of the characters that are allowed.
	end role
}

// shapes are indexed by the first byte of the prefix.
var shapes = func() (table [256][]shape) {
	for _, s := range []shape{
		{`sk_live_ sk_test_ rk_live_ rk_test_ pk_live_ pk_test_ xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xoxc- xapp- sk_prod_
			sk_org_live_ sk_org_test_`, 10, keyEnd},
		{"rzp_live_ FLWSECK FLWSECK_TEST-", 12, keyEnd},
		{"NRJS- tskey-", 15, keyEnd},
		{"sk- LTAI", 16, keyEnd},
		{`ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ gldt- glrt- gloas- glcbt- glptt- glft- glsoat- glimt- glagent- GOCSPX- shpat_
			shpca_ shppa_ shpss_ sq0atp- sq0csp- sq0idp- lin_api_ NRAK- NRII- dckr_pat_ dckr_oat_ sb_secret_ aio_ tvly- vercel_
			ctx7sk-`, 20, keyEnd},
		{"ATBB", 28, keyEnd},
		{`1//0 npm_ hf_ api_org_ pypi- ntn_ figd_ PMAK- r8_ sbp_ glsa_ sntryu_ phx_ phc_ duffel_live_ duffel_test_ HRKU- pnu_
			shippo_live_ shippo_test_ AQVN AKID fo1_ atlasv1. lsv2_ pat-na1- pat-eu1- gitea_ wandb_v1_ cfut_ e2b_ nfp_ bkua_ ddp_`, 30, keyEnd},
		{"dapi cio ico-", 32, keyEnd},
		{"AIza AQ.", 35, keyEnd},
		{`dop_v1_ doo_v1_ dor_v1_ secret_ AGE-SECRET-KEY-1 gsk_ xai- pplx- nvapi- xkeysib- xsmtpsib- pul- rubygems_ sgp_ CFPAT-
			CLOJARS_ jina_`, 40, keyEnd},
		{"EAAA EAAC EZAK EZTK", 50, keyEnd},
		{"AKCp rdme_ v1.0-", 60, keyEnd},
		{"whsec_", 16, base64End},
		{"xoxd-", 20, cookieEnd},
		{"glc_ sntrys_", 30, base64End},
		{"fm2_ fm1r_", 60, base64End},
		{"MII", 300, base64End},
		{"FlyV1", 40, listedEnd},
		{"xoxe.", 10, dottedKeyEnd},
		{"glpat- ya29. hvs. hvb. hvr.", 20, dottedKeyEnd},
		{"dp.pt. dp.st. dp.ct. dp.sa. pscale_tkn_ pscale_pw_ pscale_oauth_", 30, dottedKeyEnd},
		{"SG. tfp_", 40, dottedKeyEnd},
		{"dt0c01. dt0s01.", 60, dottedKeyEnd},
		{"ATATT3 ATCTT3 fio-u-", 40, assignedKeyEnd},
		{"ops_eyJ", 60, assignedKeyEnd},
	} {
		for prefix := range strings.FieldsSeq(s.prefix) {
			table[prefix[0]] = append(table[prefix[0]], shape{prefix, s.least, s.end})
		}
	}
	return table
}()

// shapeBegins has the first two bytes of everything that shapeAt recognizes: most
// words have others.
var shapeBegins = func() (table [256][256 / 64]uint64) {
	add := func(first, second byte) { table[first][second/64] |= 1 << (second % 64) }
	for first := range shapes {
		for _, s := range shapes[first] {
			add(s.prefix[0], s.prefix[1])
		}
	}
	for _, first := range []byte(hexDigits) {
		for _, second := range []byte(hexDigits) {
			add(first, second)
		}
	}
	for _, first := range []byte("MNO") {
		for second := range 256 {
			if isWord(byte(second)) || second == '-' {
				add(first, byte(second))
			}
		}
	}
	for _, first := range []byte("123") { // ngrok's
		for second := range 256 {
			if isWord(byte(second)) && second != '_' {
				add(first, byte(second))
			}
		}
	}
	for _, begin := range []string{"AK", "AS", "AB", "AC", "ey", "SK", "ke", "fw"} {
		add(begin[0], begin[1])
	}
	return table
}()

// mayBeShape reports whether shapeAt can find anything. It is much cheaper.
func mayBeShape(text string) bool {
	return len(text) >= 2 && shapeBegins[text[0]][text[1]/64]&(1<<(text[1]%64)) != 0
}

const hexDigits = "0123456789abcdef"

// wordBytes are letters, digits and _.
var wordBytes = func() (table [256]bool) {
	for c := range table {
		b := byte(c)
		table[c] = 'a' <= b|0x20 && b|0x20 <= 'z' || '0' <= b && b <= '9' || b == '_'
	}
	return table
}()

func isWord(c byte) bool { return wordBytes[c] }

// runOf returns how many letters, digits, _, - and bytes of more the text begins
// with, at most most.
func runOf(text string, more string, most int) (length int) {
	for length < len(text) && length < most {
		c := text[length]
		if !isWord(c) && c != '-' && strings.IndexByte(more, c) < 0 {
			break
		}
		length++
	}
	return length
}

// enough is the length above which a value is a secret without a closer look.
const enough = 400

// shapeAt returns the length of the provider's key at a position, or zero.
func (s *scan) shapeAt(i int) int {
	text := s.text[i:]
	for n := range shapes[text[0]] {
		shape := &shapes[text[0]][n]
		if !strings.HasPrefix(text, shape.prefix) {
			continue
		}
		from := i + len(shape.prefix)
		to := s.next(shape.end, from)
		near := min(to, from+shape.least+40) // enough to recognize it
		if to-from < shape.least {
			continue
		}
		if s.next(digitAt, from) < near || shape.prefix == "glpat-" && isScrambled(s.near(from, near)) {
			return len(strings.TrimRight(s.near(i, to), ".,= "))
		}
	}
	run := s.next(keyEnd, i) - i
	switch {
	case run >= 10 && strings.HasPrefix(text, "eyJ"):
		return s.webToken(i)
	case run >= 23 && strings.HasPrefix(text, "fw_"):
		return s.lettersAndDigits(i)
	}
	for n := range patterns[text[0]] {
		p := &patterns[text[0]][n]
		if run < p.least {
			continue
		}
		if found := p.expression.FindStringSubmatchIndex(s.near(i, i+longestPattern)); found != nil {
			if found[3] < longestPattern {
				return found[3]
			}
			return s.next(afterKey, i+longestPattern) - i
		}
	}
	return 0
}

// webToken returns the length of a JSON web token, whose first part is an object.
func (s *scan) webToken(i int) int {
	payload := s.next(keyEnd, i+len("eyJ")) + 1
	if payload-i < 11 || payload >= len(s.text) || s.text[payload-1] != '.' {
		return 0
	}
	end := s.next(payloadEnd, payload)
	if end-payload < 10 || end == len(s.text) || s.text[end] != '.' {
		return 0
	}
	for parts := 0; parts < 3 && end < len(s.text) && s.text[end] == '.'; parts++ {
		end = s.next(signatureEnd, end+1)
	}
	return end - i
}

// lettersAndDigits returns the length of a key of Fireworks: at least two digits among letters.
func (s *scan) lettersAndDigits(i int) int {
	to, digits := i+len("fw_"), 0
	for ; to < len(s.text) && isWord(s.text[to]) && s.text[to] != '_'; to++ {
		if s.text[to] <= '9' {
			digits++
		}
	}
	s.looked += to - i
	if digits < 2 || to < len(s.text) && (s.text[to] == '_' || s.text[to] == '-') {
		return 0
	}
	return to - i
}

// longestPattern is how much of a text an expression sees. What matches to its end is
// longer.
const longestPattern = 64

// pattern describes other keys: at least least letters, digits, _ and -, and an
// expression for them and what follows. Its group is the key.
type pattern struct {
	least      int
	expression *regexp.Regexp
}

// patterns are indexed by the first byte.
var patterns = func() (table [256][]pattern) {
	for _, p := range []struct {
		first      string
		least      int
		expression string
	}{
		{"A", 20, `(A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16})(?:\W|$)`}, // an access key's id
		{"MNO", 23, `([\w-]{23,28}\.[\w-]{6}\.[\w-]{27,})`},     // a bot token: its number, a time, a hash
		{"S", 34, `(SK[0-9a-f]{32})(?:[^\w-]|$)`},
		{"v", 2, `(v1\.0-[0-9a-f]{24}-[0-9a-f]{16,})`},                       // Cloudflare's, for an origin
		{"123", 36, `([123][A-Za-z0-9]{26}_[A-Za-z0-9]{20,24})(?:[^\w-]|$)`}, // ngrok: a time and random bytes, twice
		{"k", 36, `(key-[0-9a-f]{32})(?:[^\w-]|$)`},
		{digitsOnly, 8, `(\d{8,10}:[\w-]{35})(?:[^\w-]|$)`},                           // a bot token: its number, a colon
		{hexDigits, 36, `([0-9a-f]{32}-us(?:\d[\w-]{0,2}|[\w-]\d[\w-]?|[\w-]{2}\d))`}, // followed by a region
	} {
		expression := regexp.MustCompile("^" + p.expression)
		for _, first := range []byte(p.first) {
			table[first] = append(table[first], pattern{p.least, expression})
		}
	}
	return table
}()

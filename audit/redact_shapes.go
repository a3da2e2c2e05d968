package audit

import "strings"

// shape is what a provider's keys look like: a prefix, and then at least so many
// characters, with a digit among them.
type shape struct {
	prefix string
	least  int
	// more are characters besides letters, digits, _ and -.
	more string
}

// shapes are by the first byte of the prefix.
var shapes = func() (table [256][]shape) {
	for _, s := range []shape{
		{"sk-", 16, ""}, {"sk_live_", 10, ""}, {"sk_test_", 10, ""}, {"rk_live_", 10, ""}, {"rk_test_", 10, ""}, {"pk_live_", 10, ""},
		{"pk_test_", 10, ""}, {"whsec_", 16, "+/="},
		{"ghp_", 20, ""}, {"gho_", 20, ""}, {"ghu_", 20, ""}, {"ghs_", 20, ""}, {"ghr_", 20, ""}, {"github_pat_", 20, ""},
		{"glpat-", 20, "."}, {"gldt-", 20, ""}, {"glrt-", 20, ""}, {"gloas-", 20, ""}, {"glcbt-", 20, ""}, {"glptt-", 20, ""}, {"glft-", 20, ""},
		{"glsoat-", 20, ""}, {"glimt-", 20, ""}, {"glagent-", 20, ""}, {"xoxa-", 10, ""}, {"xoxb-", 10, ""}, {"xoxe-", 10, ""}, {"xoxe.", 10, "."},
		{"xoxo-", 10, ""}, {"xoxp-", 10, ""}, {"xoxr-", 10, ""}, {"xoxs-", 10, ""}, {"xapp-", 10, ""}, {"AIza", 35, ""}, {"ya29.", 20, "."},
		{"GOCSPX-", 20, ""}, {"1//0", 30, ""}, {"npm_", 30, ""}, {"hf_", 30, ""}, {"api_org_", 30, ""}, {"pypi-", 30, ""}, {"dop_v1_", 40, ""},
		{"doo_v1_", 40, ""}, {"dor_v1_", 40, ""}, {"SG.", 40, "."}, {"shpat_", 20, ""}, {"shpca_", 20, ""}, {"shppa_", 20, ""}, {"shpss_", 20, ""},
		{"sq0atp-", 20, ""}, {"sq0csp-", 20, ""}, {"sq0idp-", 20, ""}, {"EAAA", 50, ""}, {"EAAC", 50, ""}, {"rzp_live_", 12, ""}, {"lin_api_", 20, ""},
		{"ntn_", 30, ""}, {"secret_", 40, ""}, {"figd_", 30, ""}, {"PMAK-", 30, ""}, {"NRAK-", 20, ""}, {"NRJS-", 15, ""}, {"NRII-", 20, ""},
		{"dapi", 32, ""}, {"hvs.", 20, "."}, {"hvb.", 20, "."}, {"hvr.", 20, "."}, {"dckr_pat_", 20, ""}, {"dckr_oat_", 20, ""}, {"tskey-", 15, ""},
		{"AGE-SECRET-KEY-1", 40, ""}, {"gsk_", 40, ""}, {"r8_", 30, ""}, {"xai-", 40, ""}, {"pplx-", 40, ""}, {"nvapi-", 40, ""},
		{"sbp_", 30, ""}, {"sb_secret_", 20, ""}, {"glc_", 30, "+/="}, {"glsa_", 30, ""}, {"sntrys_", 30, "+/="}, {"sntryu_", 30, ""}, {"phx_", 30, ""},
		{"phc_", 30, ""}, {"EZAK", 50, ""}, {"EZTK", 50, ""}, {"duffel_live_", 30, ""}, {"duffel_test_", 30, ""}, {"FLWSECK", 12, ""},
		{"FLWSECK_TEST-", 12, ""}, {"xkeysib-", 40, ""}, {"xsmtpsib-", 40, ""}, {"dp.pt.", 30, "."}, {"dp.st.", 30, "."}, {"dp.ct.", 30, "."},
		{"dp.sa.", 30, "."}, {"HRKU-", 30, ""}, {"pscale_tkn_", 30, "."}, {"pscale_pw_", 30, "."}, {"pscale_oauth_", 30, "."}, {"pul-", 40, ""},
		{"pnu_", 30, ""}, {"rubygems_", 40, ""}, {"cio", 32, ""}, {"sgp_", 40, ""}, {"shippo_live_", 30, ""}, {"shippo_test_", 30, ""},
		{"tfp_", 40, "."}, {"AQVN", 30, ""}, {"LTAI", 16, ""}, {"AKID", 30, ""}, {"ATATT3", 40, "="}, {"ATBB", 28, ""}, {"ATCTT3", 40, "="},
		{"aio_", 20, ""}, {"CFPAT-", 40, ""}, {"dt0c01.", 60, "."}, {"dt0s01.", 60, "."}, {"fio-u-", 40, "="}, {"ico-", 32, ""}, {"AKCp", 60, ""},
		{"rdme_", 60, ""}, {"ops_eyJ", 60, "="}, {"CLOJARS_", 40, ""}, {"FlyV1", 40, "+/=, "}, {"fo1_", 30, ""}, {"fm2_", 60, "+/="}, {"fm1r_", 60, "+/="},
		{"v1.0-", 60, ""}, {"atlasv1.", 30, ""}, {"MII", 300, "+/="}, {"lsv2_", 30, ""}, {"tvly-", 20, ""}, {"jina_", 40, ""},
		{"pat-na1-", 30, ""}, {"pat-eu1-", 30, ""}, {"gitea_", 30, ""}, {"vercel_", 20, ""}, {"wandb_v1_", 30, ""}, {"ctx7sk-", 20, ""},
		{"cfut_", 30, ""}, {"e2b_", 30, ""}, {"nfp_", 30, ""}, {"bkua_", 30, ""}, {"ddp_", 30, ""},
		{"sk_prod_", 10, ""},
	} {
		table[s.prefix[0]] = append(table[s.prefix[0]], s)
	}
	return table
}()

// shapeBegins are the first two bytes of what shapeAt knows: most words are none.
var shapeBegins = func() (table [256][256 / 64]uint64) {
	add := func(first, second byte) { table[first][second/64] |= 1 << (second % 64) }
	for first := range shapes {
		for _, s := range shapes[first] {
			add(s.prefix[0], s.prefix[1])
		}
	}
	const hex = "0123456789abcdef"
	for _, first := range []byte(hex) {
		for _, second := range []byte(hex) {
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
	for _, begin := range []string{"AK", "AS", "AB", "AC", "ey", "SK", "ke"} {
		add(begin[0], begin[1])
	}
	return table
}()

// mayBeShape reports whether shapeAt needs to look: where it says no, that finds
// nothing.
func mayBeShape(text string) bool {
	return len(text) >= 2 && shapeBegins[text[0]][text[1]/64]&(1<<(text[1]%64)) != 0
}

// wordBytes are letters, digits and _.
var wordBytes = func() (table [256]bool) {
	for c := range table {
		b := byte(c)
		table[c] = 'a' <= b|0x20 && b|0x20 <= 'z' || '0' <= b && b <= '9' || b == '_'
	}
	return table
}()

func isWord(c byte) bool { return wordBytes[c] }

// runOf is how long a text goes on with letters, digits, _, - and more, up to most,
// and whether it has a digit.
func runOf(text string, more string, most int) (length int, digit bool) {
	for length < len(text) && length < most {
		c := text[length]
		if !isWord(c) && c != '-' && strings.IndexByte(more, c) < 0 {
			break
		}
		digit = digit || '0' <= c && c <= '9'
		length++
	}
	return length, digit
}

// enough is the length above which a value is a secret without a closer look.
const enough = 400

// shapeAt is the length of a provider's key that begins the text. Zero: none.
func shapeAt(text string) int {
	for i := range shapes[text[0]] {
		s := &shapes[text[0]][i]
		if !strings.HasPrefix(text, s.prefix) {
			continue
		}
		rest := text[len(s.prefix):]
		most := s.least + 40 // is enough to know it
		if length, digit := runOf(rest, s.more, most); digit && length >= s.least {
			if length == most {
				length, _ = runOf(rest, s.more, len(rest))
			}
			return len(s.prefix) + len(strings.TrimRight(rest[:length], ".,= "))
		}
	}
	switch text[0] {
	case 'A':
		return awsAt(text)
	case 'e':
		return jwtAt(text)
	case 'M', 'N', 'O':
		return partsAt(text, 23, 28, 6, 27)
	case 'S':
		return hexAt(text, "SK", "")
	case 'k':
		return hexAt(text, "key-", "")
	}
	if '0' <= text[0] && text[0] <= '9' {
		if length := telegramAt(text); length > 0 {
			return length
		}
	}
	return hexAt(text, "", "-us")
}

// awsAt is the length of an access key's id: four letters and 16 capitals and digits.
func awsAt(text string) int {
	const length = 20
	if len(text) < length || !strings.HasPrefix(text, "AKIA") && !strings.HasPrefix(text, "ASIA") && !strings.HasPrefix(text, "ABIA") && !strings.HasPrefix(text, "ACCA") {
		return 0
	}
	for i := range length {
		if c := text[i]; (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return 0
		}
	}
	if len(text) > length && isWord(text[length]) {
		return 0
	}
	return length
}

// jwtAt is the length of a JSON web token: three or five parts, the first of them
// an object.
func jwtAt(text string) int {
	if !strings.HasPrefix(text, "eyJ") {
		return 0
	}
	at, parts := 0, 0
	for {
		length, _ := runOf(text[at:], "", len(text))
		if parts < 2 && length < 10 {
			return 0
		}
		at += length
		parts++
		if parts == 5 || at >= len(text) || text[at] != '.' {
			break
		}
		at++
	}
	if parts < 3 {
		return 0
	}
	return at
}

// partsAt is the length of a token of three parts with a dot between them.
func partsAt(text string, least, most, second, third int) int {
	one, _ := runOf(text, "", most+1)
	if one < least || one > most || one >= len(text) || text[one] != '.' {
		return 0
	}
	two, _ := runOf(text[one+1:], "", second+1)
	at := one + 1 + two
	if two != second || at >= len(text) || text[at] != '.' {
		return 0
	}
	three, _ := runOf(text[at+1:], "", len(text))
	if three < third {
		return 0
	}
	return at + 1 + three
}

// hexAt is the length of 32 hexadecimal digits between two texts.
func hexAt(text, before, after string) int {
	const count = 32
	if len(text) < len(before)+count+len(after) || !strings.HasPrefix(text, before) {
		return 0
	}
	end := len(before) + count
	for i := len(before); i < end; i++ {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return 0
		}
	}
	if !strings.HasPrefix(text[end:], after) {
		return 0
	}
	rest, digit := runOf(text[end+len(after):], "", 3)
	if after == "" && rest > 0 || after != "" && (rest == 0 || !digit) {
		return 0
	}
	return end + len(after) + rest
}

// telegramAt is the length of a bot's token: its number, a colon, 35 characters.
func telegramAt(text string) int {
	number := 0
	for number < len(text) && number < 12 && '0' <= text[number] && text[number] <= '9' {
		number++
	}
	if number < 8 || number > 10 || number >= len(text) || text[number] != ':' {
		return 0
	}
	if length, _ := runOf(text[number+1:], "", 36); length == 35 {
		return number + 1 + length
	}
	return 0
}

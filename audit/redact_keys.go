package audit

import (
	"slices"
	"strings"
)

// kind says what the value of a name must look like to be a secret.
type kind int

const (
	// plain: the name is not that of a secret.
	plain kind = iota
	// lengthy: at least 16 characters with digits are a secret. For names with
	// other meanings too, such as signature and tokens.
	lengthy
	// opaque: what is not a word is a secret. For names such as token and
	// credentials.
	opaque
	// numeric: three or more letters and digits, not all letters, are a secret,
	// such as a PIN or a code.
	numeric
	// any_: every value is a secret, except a placeholder: "required",
	// "${PASSWORD}".
	any_
	// phrase: every value is a secret, prose too.
	phrase
)

func set(words string) map[string]struct{} {
	out := map[string]struct{}{}
	for word := range strings.FieldsSeq(words) {
		out[word] = struct{}{}
	}
	return out
}

func has(words map[string]struct{}, word string) bool {
	_, found := words[word]
	return found
}

// begins reports whether a text has one of these prefixes.
func begins(text string, others ...string) bool {
	return slices.ContainsFunc(others, func(other string) bool { return strings.HasPrefix(text, other) })
}

// pairOf is the kind of a name's last word after one of the words in before.
type pairOf struct {
	before map[string]struct{}
	kind   kind
}

var (
	// lastWords say what a name is by its last word, and pairsOf by its last two, if
	// the last one alone says nothing.
	lastWords = map[string]kind{}
	pairsOf   = map[string]pairOf{}

	// keysOf are words that make "key" a secret if they precede it, and codesOf "code".
	keysOf = set(`api access secret private signing signature encryption master account storage shared subscription auth authentication
		service deploy deployment app application server client ssh rsa pgp gpg webhook hmac crypto cipher decryption root admin consumer
		write license sas aes symmetric wrapping session jwt stripe openai anthropic sendgrid gemini functions function integration
		ingest bot team maps`)
	codesOf = set("verification auth otp mfa access recovery backup security sms pairing unlock login twofactor factor totp pin")
	// noTokensOf are words with which, anywhere before it, a "token" is not a secret.
	noTokensOf = set(`next page continuation cursor sync max min maximum minimum stop eos bos pad unk sep cls mask start end prompt completion
		input output total num number count cached cache reasoning per first last special text image audio video lock fencing prev
		previous begin tool thinking budget estimated used remaining prediction generated context`)
	// noPassOf are words with which, immediately before it, "pass" is not a secret.
	noPassOf = set("first second test boarding by")
	// besides are words that may follow the one that says what the name is.
	besides = set(`value text plain plaintext raw str confirm confirmation confirmed repeat again new old current prev previous prod production
		dev development staging test live primary secondary main backup encoded encrypted hash hashed digest hex default data base`)
	// questions are the first words of names that concern a secret but are not one's.
	questions = set(`is has needs requires require required use uses enable enabled allow show hide with without no missing invalid forgot
		can should supports support rotate check validate verify`)
	// compounds are the ends of names whose words are not separated.
	compounds = strings.Fields(`apikey apikeys password passwords passwd passphrase secretkey accesskey privatekey signingkey encryptionkey masterkey
		authkey sharedkey accountkey accesstoken refreshtoken authtoken idtoken sessiontoken bearertoken apitoken csrftoken bottoken
		usertoken devicetoken clientsecret webhooksecret appsecret apisecret authorization connectionstring`)
)

func init() {
	for kind, words := range map[kind]string{
		lengthy: "signature signatures sig hmac auth bearer tokens pat pats sas",
		opaque:  "token credential credentials creds cookie cookies pass jwt jwts pem kubeconfig htpasswd",
		numeric: "pin otp totp cvv cvc",
		any_: `password passwords passwd passwds passwort pwd pwds pw passcode secret secrets apikey apikeys authorization dsn secretkey
			privatekey accesskey dockerconfigjson`,
		phrase: "passphrase passphrases mnemonic",
	} {
		for word := range strings.FieldsSeq(words) {
			lastWords[word] = kind
		}
	}
	for words, pair := range map[string]pairOf{
		"key keys":     {keysOf, any_},
		"code codes":   {codesOf, numeric},
		"string":       {set("connection conn"), any_},
		"phrase words": {set("seed recovery mnemonic pass secret"), phrase},
	} {
		for word := range strings.FieldsSeq(words) {
			pairsOf[word] = pair
		}
	}
}

// longestName is how much of the end of a name is examined.
const longestName = 96

// kindOf returns the kind of a name of a member, variable, option or header.
func kindOf(name string) kind {
	if len(name) > longestName {
		name = name[len(name)-longestName:]
	}
	var buffer [longestName]byte
	var ends [24]int
	lower, count := splitName(name, &buffer, &ends)
	word := func(i int) string {
		if i < 0 {
			return ""
		}
		if i == 0 {
			return lower[:ends[0]]
		}
		return lower[ends[i-1]:ends[i]]
	}
	if count == 0 {
		return plain
	}
	for count > 1 && (has(besides, word(count-1)) || len(word(count-1)) == 1) && !isPair(word(count-2), word(count-1)) {
		count--
	}
	last, before := word(count-1), word(count-2)
	if count > 1 && has(questions, word(0)) {
		return plain
	}
	if pair, found := pairsOf[last]; found {
		if has(pair.before, before) {
			return pair.kind
		}
		return plain
	}
	switch last {
	case "token", "tokens":
		for i := range count - 1 {
			if has(noTokensOf, word(i)) {
				return plain
			}
		}
		if count > 1 {
			return any_
		}
	case "pass":
		if count > 1 && !has(noPassOf, before) {
			return any_
		}
	}
	if kind, found := lastWords[last]; found {
		return kind
	}
	if len(last) > len("apikey") {
		if slices.ContainsFunc(compounds, func(compound string) bool { return strings.HasSuffix(last, compound) }) {
			return any_
		}
	}
	return plain
}

// isPair reports whether the two words form one term.
func isPair(first, second string) bool { return first == "connection" && second == "string" }

// splitName returns a name in lower case with its words joined: separators and
// digits are dropped. apiKey, API-KEY and api_key give the same result.
func splitName(name string, buffer *[longestName]byte, ends *[24]int) (lower string, count int) {
	at, begun := 0, false
	end := func() {
		if begun && count < len(ends)-1 {
			ends[count] = at
			count++
		}
		begun = false
	}
	for i := range len(name) {
		c := name[i]
		isUpper := 'A' <= c && c <= 'Z'
		if !isUpper && (c < 'a' || c > 'z') && c < 0x80 {
			end()
			continue
		}
		if isUpper && i > 0 {
			follows := name[i-1] // a capital begins a word, unless it is one of several
			if 'a' <= follows && follows <= 'z' || i+1 < len(name) && 'a' <= name[i+1] && name[i+1] <= 'z' {
				if i+2 != len(name) || name[i+1] != 's' { // but APIs
					end()
				}
			}
		}
		if isUpper {
			c |= 0x20
		}
		buffer[at] = c
		at++
		begun = true
	}
	end()
	return string(buffer[:at]), count
}

// stands are texts that appear in place of a secret.
var stands = set(`required optional none null nil undefined true false yes no string str text number int integer invalid expired missing unknown
	empty unset redacted hidden masked include omit same-origin bearer basic any bytes boolean bool object array enabled disabled changed
	updated wrong incorrect not sent str) unchanged ok denied rejected revoked accepted valid verified rotated created deleted absent
	present set <nil> (null) byte char varchar password? n/a na varchar(255) reset mismatch failed ask prompt never always auto weak strong`)

// isSecret reports whether a text is a secret of the kind that its name says.
func isSecret(kind kind, text string) bool {
	if kind == plain || text == "" || text == Redacted {
		return false
	}
	if len(text) > 400 {
		return true
	}
	if has(stands, strings.ToLower(text)) || isReference(text) || kind != phrase && isProse(text) {
		return false
	}
	switch kind {
	case lengthy:
		return len(text) >= 16 && isOpaque(text)
	case opaque:
		return len(text) >= 5 && (isOpaque(text) || len(text) >= 20 && !strings.ContainsAny(text, " .-") || hasToken(text)) || strings.HasPrefix(text, "Basic ")
	case numeric:
		for i := range len(text) {
			if c := text[i]; (c < '0' || c > '9') && c != '-' && (c|0x20 < 'a' || c|0x20 > 'z') {
				return false
			}
		}
		return len(text) >= 3 && strings.ContainsAny(text, "0123456789")
	}
	return true
}

// hasToken reports whether a word of a text looks generated, or is a cookie.
func hasToken(text string) bool {
	for word := range strings.FieldsSeq(text) {
		if len(word) >= 16 && isOpaque(word) || len(word) >= 8 && strings.IndexByte(word, '=') > 0 {
			return true
		}
	}
	return false
}

// isOpaque reports whether a text does not look like prose: it has no spaces, and
// digits or punctuation between letters, or is longer than any word.
func isOpaque(text string) bool {
	digit, letter, sign := false, false, len(text) > enough
	for i := range min(len(text), enough) {
		switch c := text[i]; {
		case c <= ' ' || c == '(' || c == ')':
			return false
		case '0' <= c && c <= '9':
			digit = true
		case c|0x20 >= 'a' && c|0x20 <= 'z':
			letter = true
		case strings.IndexByte("!#$%&*+=@^~", c) >= 0:
			sign = true
		}
	}
	return digit && letter || sign || digit && len(text) >= 8
}

// isReference reports whether a text refers to a secret that is kept elsewhere.
func isReference(text string) bool {
	last := text[len(text)-1]
	switch text[0] {
	case '$':
		if len(text) > 2 && (text[1] == '{' && last == '}' || text[1] == '(' && last == ')') {
			return true
		}
		return strings.Trim(text[1:], "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == "" && len(text) > 1
	case '{':
		return strings.HasPrefix(text, "{{") && strings.HasSuffix(text, "}}")
	case '<':
		return last == '>' && strings.Trim(text[1:len(text)-1], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ _-") == ""
	case '%':
		return len(text) > 2 && last == '%'
	case '*', 'x', 'X', '.':
		if strings.Trim(text, text[:1]) == "" && len(text) >= 3 {
			return true
		}
	}
	if strings.HasPrefix(text, "•") {
		return strings.Trim(text, "•") == ""
	}
	return begins(text, "/run/", "/etc/", "/var/", "/home/", "/tmp/", "/secrets/", "~/", "./", "arn:", "vault:", "op://", "env:", "file:",
		"ssm:", "secretsmanager:", "projects/", "secrets.", "vars.", "process.env.", "os.environ", "os.getenv", "env.")
}

// prose are words that occur in sentences about secrets.
var prose = set(`is must required invalid cannot should incorrect not expired enter missing does the was has your please too may be are
	changed do`)

// isProse reports whether a text is a sentence about a secret.
func isProse(text string) (found bool) {
	if len(text) > 200 || !strings.Contains(text, " ") {
		return false
	}
	for word := range strings.FieldsFuncSeq(strings.ToLower(text), func(c rune) bool { return strings.ContainsRune(" .,:'", c) }) {
		if len(word) >= 16 && isOpaque(word) {
			return false
		}
		found = found || has(prose, word)
	}
	return found
}

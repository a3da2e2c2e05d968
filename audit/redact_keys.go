package audit

import (
	"regexp"
	"slices"
	"strings"
)

// kind says what the value of a name must look like to be a secret.
type kind int

const (
	// plain: the name is not a secret's.
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

// words maps each word of the lists to what its list stands for.
func words[V any](lists map[string]V) map[string]V {
	out := map[string]V{}
	for list, value := range lists {
		for word := range strings.FieldsSeq(list) {
			out[word] = value
		}
	}
	return out
}

func set(list string) map[string]bool { return words(map[string]bool{list: true}) }

// pairOf is the kind of a name's last word after one of the words in before.
type pairOf struct {
	before map[string]bool
	kind   kind
}

var (
	// lastWords say what a name is by its last word, and pairsOf by its last two.
	lastWords = words(map[string]kind{
		"signature signatures sig hmac auth bearer tokens pat pats sas":                           lengthy,
		"token credential credentials creds cookie cookies pass jwt jwts pem kubeconfig htpasswd": opaque,
		"pin otp totp cvv cvc": numeric,
		`password passwords passwd passwds passwort pwd pwds pw passcode secret secrets apikey apikeys authorization
			dsn secretkey privatekey accesskey dockerconfigjson`: any_,
		"passphrase passphrases mnemonic": phrase,
	})
	pairsOf = words(map[string]pairOf{
		"key keys": {set(`api access secret private signing signature encryption master account storage shared
			subscription auth authentication service deploy deployment app application server client ssh rsa pgp gpg
			webhook hmac crypto cipher decryption root admin consumer write license sas aes symmetric wrapping
			session jwt stripe openai anthropic sendgrid gemini functions function integration ingest bot team
			maps`), any_},
		"code codes": {set(`verification auth otp mfa access recovery backup security sms pairing unlock login
			twofactor factor totp pin`), numeric},
		"string":       {set("connection conn"), any_},
		"phrase words": {set("seed recovery mnemonic pass secret"), phrase},
	})
	// noTokensOf are words with which, anywhere before it, a "token" is not a secret.
	noTokensOf = set(`next page continuation cursor sync max min maximum minimum stop eos bos pad unk sep cls mask
		start end prompt completion input output total num number count cached cache reasoning per first last
		special text image audio video lock fencing prev previous begin tool thinking budget estimated used
		remaining prediction generated context`)
	// noPassOf are words with which, immediately before it, "pass" is not a secret.
	noPassOf = set("first second test boarding by")
	// besides are words that may follow the word that says what the name is.
	besides = set(`value text plain plaintext raw str confirm confirmation confirmed repeat again new old current
		prev previous prod production dev development staging test live primary secondary main backup encoded
		encrypted hash hashed digest hex default data base`)
	// questions are the first words of names that concern a secret but are not one's.
	questions = set(`is has needs requires require required use uses enable enabled allow show hide with without no
		missing invalid forgot can should supports support rotate check validate verify`)
	// compounds are the ends of names whose words are not separated.
	compounds = strings.Fields(`apikey apikeys password passwords passwd passphrase secretkey accesskey privatekey
		signingkey encryptionkey masterkey authkey sharedkey accountkey accesstoken refreshtoken authtoken idtoken
		sessiontoken bearertoken apitoken csrftoken bottoken usertoken devicetoken clientsecret webhooksecret
		appsecret apisecret authorization connectionstring`)
)

// longestName is how much of the end of a name is examined.
const longestName = 96

// kindOf returns the kind of a name of a member, variable, option or header.
func kindOf(name string) kind {
	var buffer [2 * longestName]byte
	before, last := cutLast(string(splitName(buffer[:0], name[max(0, len(name)-longestName):])))
	for before != "" && (besides[last] || len(last) == 1) {
		before, last = cutLast(before)
	}
	if first, _, _ := strings.Cut(before, "_"); questions[first] {
		return plain
	}
	_, neighbour := cutLast(before)
	if pair, found := pairsOf[last]; found {
		if pair.before[neighbour] {
			return pair.kind
		}
		return plain
	}
	switch last {
	case "token", "tokens":
		for word := range strings.SplitSeq(before, "_") {
			if noTokensOf[word] {
				return plain
			}
		}
		if before != "" {
			return any_
		}
	case "pass":
		if before != "" && !noPassOf[neighbour] {
			return any_
		}
	}
	kind, found := lastWords[last]
	endsOn := func(compound string) bool { return strings.HasSuffix(last, compound) }
	if !found && len(last) > len("apikey") && slices.ContainsFunc(compounds, endsOn) {
		return any_
	}
	return kind
}

// cutLast cuts off the last word.
func cutLast(words string) (before, last string) {
	at := strings.LastIndexByte(words, '_')
	return words[:max(at, 0)], words[at+1:]
}

// splitName appends a name in lower case, with _ between its words, without digits: apiKey, API-KEY and api_key1 give
// the same.
func splitName(to []byte, name string) []byte {
	isLower := func(i int) bool { return i >= 0 && i < len(name) && 'a' <= name[i] && name[i] <= 'z' }
	separate := false
	for i := range len(name) {
		c := name[i]
		isUpper := 'A' <= c && c <= 'Z'
		if !isUpper && !isLower(i) && c < 0x80 {
			separate = true
			continue
		}
		if isUpper {
			c |= 0x20
			// A capital begins a word, unless it is one of several, or the last one of a plural: APIs.
			if (isLower(i-1) || isLower(i+1)) && name[i+1:] != "s" {
				separate = true
			}
		}
		if separate && len(to) > 0 {
			to = append(to, '_')
		}
		to, separate = append(to, c), false
	}
	return to
}

var (
	// stands are texts that appear in place of a secret.
	stands = set(`required optional none null nil undefined true false yes no string str text number int integer
		invalid expired missing unknown empty unset redacted hidden masked include omit same-origin bearer basic any
		bytes boolean bool object array enabled disabled changed updated wrong incorrect not sent str) unchanged ok
		denied rejected revoked accepted valid verified rotated created deleted absent present set <nil> (null) byte
		char varchar password? n/a na varchar(255) reset mismatch failed ask prompt never always auto weak strong`)
	// reference is a text that says where a secret is kept, or stands for one.
	reference = regexp.MustCompile(`^(?:\$[A-Z_0-9]+|\$\{.*\}|\$\(.*\)|\{\{.*\}\}|<[A-Za-z _-]*>|%.+%|` +
		`\*{3,}|[xX]{3,}|\.{3,}|•+|(?:/(?:run|etc|var|home|tmp|secrets)/|~/|\./|arn:|vault:|op://|env[:.]|file:|` +
		`ssm:|secretsmanager:|projects/|secrets\.|vars\.|` +
		`process\.env\.|os\.environ|os\.getenv).*)$`)
	// prose is a word that occurs in sentences about secrets.
	prose = regexp.MustCompile(`(?i)(?:^|[ .,:'])(?:is|must|required|invalid|cannot|should|incorrect|not|expired|` +
		`enter|missing|does|the|was|has|your|please|too|may|be|are|changed|do)(?:[ .,:']|$)`)
	numbers = regexp.MustCompile(`^[A-Za-z0-9-]{3,}$`)
)

// enough is the length above which a value is a secret without a closer look.
const enough = 256

// isSecret reports whether a text is a secret of the kind that its name says.
func isSecret(kind kind, text string) bool {
	switch {
	case kind == plain || text == "" || text == Redacted:
		return false
	case len(text) > enough:
		return true
	case stands[strings.ToLower(text)] || reference.MatchString(text),
		// A sentence about a secret.
		kind != phrase && strings.Contains(text, " ") && !hasToken(text) && prose.MatchString(text):
		return false
	}
	switch kind {
	case lengthy:
		return len(text) >= 16 && isOpaque(text)
	case opaque:
		isLong := len(text) >= 20 && !strings.ContainsAny(text, " .-")
		return len(text) >= 5 && (isOpaque(text) || isLong || hasToken(text))
	case numeric:
		return numbers.MatchString(text) && strings.ContainsAny(text, digitsOnly)
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

const (
	digitsOnly = "0123456789"
	letters    = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// isOpaque reports whether a text does not look like prose: it has no spaces, and
// digits or punctuation between letters, or is longer than any word.
func isOpaque(text string) bool {
	if strings.ContainsAny(text[:min(len(text), enough)], " \t\r\n()") {
		return false
	}
	if digit := strings.ContainsAny(text, digitsOnly); digit && (len(text) >= 8 || strings.ContainsAny(text, letters)) {
		return true
	}
	return len(text) > enough || strings.ContainsAny(text, "!#$%&*+=@^~")
}

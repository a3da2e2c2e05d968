package audit

import (
	"encoding/json"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"
)

// hostileWords are what the redaction looks for, and what begins or ends that. A text of them
// repeated is what it has most to do with.
var hostileWords = append(strings.Split(strings.ReplaceAll(`<¦"¦'¦\"¦\¦://¦@¦@tcp(¦@//¦u:p@h¦password=¦password="¦password='¦password:¦password:(¦password: ¦pw:¦pw:x¦id=¦id=(¦
id:"¦name="password" ¦name=¦value=¦code:¦code=¦secret=[¦secret: ¦token:${¦token ¦token=¦-p:¦-p ¦-u¦(-u¦-u a:b ¦
--password ¦--password=¦-----BEGIN RSA PRIVATE KEY-----¦PRIVATE KEY¦-----END ¦eyJ¦eyJ-¦eyJaaaaaaaaaa.¦aaaaaaaaaaaa.¦
sk-¦sk-a¦MII¦MII-¦ghp_¦glpat-¦xoxb-¦AKIA¦AQ.¦ops_eyJ¦FlyV1¦whsec_¦glc_¦SG.¦fw_¦fw_1-¦key-¦v1.0-¦1//0¦<password>¦
:password>¦</password>¦<password><![CDATA[¦]]>¦name="password">¦- ¦> ¦>¦ -> ¦password -> ¦Bearer ¦Basic ¦B¦:¦::¦=¦
=>¦:=¦-¦--¦.¦a.¦a-¦-.¦_¦12345678:¦0123456789abcdef¦1¦a¦x¦password_¦db_password ¦password is ¦is ¦is:¦arn:¦8Q~¦Q~¦~¦
'x_password', ¦,¦', '¦","¦auth=(¦auth=('¦Authorization: ¦Authorization:¦Authorization: x ¦Cookie: a¦cookie:=¦
Digest a=¦M-¦Maaaaaaaaaaaaaaaaaaaaaaaa.¦S-¦(¦)¦[¦]¦{¦}¦${¦{{¦}}¦%¦*¦xxx¦$A¦•¦é¦?¦;¦&¦ ¦ = ¦secretKey: x ¦= "¦
password = f(¦password: is not ¦login ¦login u password ¦ENV password ¦export ¦requirepass ¦Private-Lines: 1¦
Private-MAC: ¦hooks.slack.com/services/¦curl ¦mysql ¦redis-cli ¦identified by '¦env.¦{"secret":¦["¦\u0022¦/`, "\n", ""), "¦"),
	"`", "|", "\n", "\t", "password: |\n ", "pw=|\n ", "\n ", "\x00", "\xff")

// mostLooks is how often the redaction may look at a byte. A search that begins anew at each
// word looks at each byte as often as the text has words.
const mostLooks = 128

// repeated returns a text of so many bytes.
func repeated(part string, size int) string { return strings.Repeat(part, size/len(part)+1)[:size] }

// checkLooks fails the test if the redaction looks too often at a text of these words.
func checkLooks(t *testing.T, r *Redactor, size int, words ...string) {
	t.Helper()
	part := strings.Join(words, "")
	var effort effort
	if r.text(repeated(part, size), 0, &effort); effort.looked > mostLooks*size {
		t.Fatalf("%q repeated to %d bytes: it looks at each byte %d times", part, size, effort.looked/size)
	}
	if effort.looked < size {
		t.Fatalf("%q repeated to %d bytes: it looks at %d bytes only", part, size, effort.looked)
	}
}

// The first eight stopped a writer once. All pairs are in TestAmountRedactHostile.
// Guarantee: The audit trail: Redaction looks at each byte of hostile text 128 times at most.
func TestRedactHostile(t *testing.T) {
	r := NewRedactor(RedactorOptions{})
	for _, part := range []string{"eyJ-", "(-u", "password:(", "id=(", "code:", "secret=[", "token:${", "-p:"} {
		checkLooks(t, r, 16<<10, part)
		checkLooks(t, r, 256<<10, part)
	}
	for _, word := range hostileWords {
		checkLooks(t, r, 16<<10, word)
	}
}

// What is matched with the rest of a text is tried where that begins alone. What is tried further on, such as ^a|^b, reads all
// of it at each word.
func TestRedactAnchored(t *testing.T) {
	all := slices.Collect(maps.Values(commands))
	for _, p := range phrases() {
		all = append(all, p.expression)
	}
	for _, s := range slices.Concat(slices.Collect(maps.Values(shapes()))...) {
		all = append(all, s.expression)
	}
	for _, expression := range append(all, indirect, connectors) {
		if !isAnchored(t, expression) {
			t.Errorf("%s is tried at each byte", expression)
		}
	}
	if naive := regexp.MustCompile(`^a|^b`); isAnchored(t, naive) {
		t.Errorf("%s is tried at the beginning alone", naive)
	}
}

func isAnchored(t *testing.T, expression *regexp.Regexp) bool {
	t.Helper()
	parsed, err := syntax.Parse(expression.String(), syntax.Perl)
	if err != nil {
		t.Fatal(err)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		t.Fatal(err)
	}
	return program.StartCond()&syntax.EmptyBeginText != 0
}

// What the redaction of a document looks at is bounded, too, however it is nested.
func TestRedactHostileDocuments(t *testing.T) {
	r := NewRedactor(RedactorOptions{})
	const size = 1 << 20
	for name, document := range map[string]string{
		"less": `{"a":"` + strings.Repeat("<", size) + `"}`, "quotes": `{"a":"` + strings.Repeat(`\"`, size/2) + `"}`,
		"arrays": strings.Repeat("[", 9000) + strings.Repeat("]", 9000), "objects": strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000),
		"secrets": strings.Repeat(`{"secret":[`, 4000) + "1" + strings.Repeat("]}", 4000), "values": strings.Repeat(`{"value":`, 9000) + `"x"` + strings.Repeat(`,"name":"password"}`, 9000),
		"numbers": `[` + strings.Repeat("1,", size/8) + `1]`, "secret numbers": `{"secret":[` + strings.Repeat("1,", size/8) + `1]}`,
		"members": `{` + strings.Repeat(`"secret":"x",`, size/64) + `"a":1}`, "schemas": strings.Repeat(`{"secret":`, 9000) + `"x"` + strings.Repeat("}", 9000),
	} {
		t.Run(name, func(t *testing.T) {
			var effort effort
			out := r.document(json.RawMessage(document), &effort)
			if !json.Valid(out) || len(out) > 3*len(document) {
				t.Errorf("%d bytes became %d", len(document), len(out))
			}
			if effort.looked > mostLooks*len(document) {
				t.Errorf("it looks at each of %d bytes %d times", len(document), effort.looked/len(document))
			}
		})
	}
	nested := `{"secret":"x","n":1.50}`
	for range 12 {
		nested = `{"a":` + quoted(nested, 1) + `}`
	}
	if out := r.JSON(json.RawMessage(nested)); !json.Valid(out) || !strings.Contains(string(out), "1.50") {
		t.Error("nested texts became invalid JSON")
	}
}

// A value in which more names begin than are examined is left out, and what follows is not.
func TestRedactCrowded(t *testing.T) {
	r := NewRedactor(RedactorOptions{})
	text := strings.Repeat("code:", 40) + "hunter2 password=hunter2, password: hunter2"
	got := r.Text(text)
	if strings.Contains(got, "hunter2") || !strings.HasSuffix(got, " password="+Redacted+", password: "+Redacted) {
		t.Errorf("%s gave %s", text, got)
	}
	if again := r.Text(got); again != got {
		t.Errorf("%s gave %s", got, again)
	}
}

// A caller's text is redacted before its entry is queued: however long that takes, the entries of
// others are written meanwhile.
func TestRecordRedactsForItsCaller(t *testing.T) {
	sink := newFake()
	sink.hang = true
	w := newWriter(t, sink, Options{})
	if err := w.Record(t.Context(), entryOf(`{"password":"hunter2"}`)); err != nil {
		t.Fatal(err)
	}
	waiting, _ := w.queue.front(1)
	if len(waiting) != 1 || string(waiting[0].Details) != `{"password":"`+Redacted+`"}` {
		t.Errorf("%v waits", waiting)
	}
	sink.set(func() { sink.hang = false })
	closeWriter(t, w)
}

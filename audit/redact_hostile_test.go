//go:build unix

package audit

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cpuTime returns how much time the process has had, whatever else the machine did.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// Redaction takes time proportional to the length of its input, even of hostile input.
func TestRedactHostile(t *testing.T) {
	r := NewRedactor(RedactorOptions{})
	for name, part := range map[string]string{
		"less": "<", "quotes": `"`, "single quotes": "'", "escaped quotes": `\"`, "backslashes": `\`, "urls": "a://", "urls with @": "a://b:c@d/",
		"users": "a://b:", "ats": "@", "assignments": "password=", "quoted assignments": `password="`, "open quotes": `password=" '`, "options": "--password ",
		"short options": "-p ", "curl": "curl -u a:b ", "mysql": "mysql -p ", "begins": "-----BEGIN RSA PRIVATE KEY-----", "ends": "-----END ", "jwt": "eyJ", "jwts": "eyJaaaaaaaaaa.",
		"keys": "sk-", "long keys": "sk-a", "elements": "<password>", "ends of elements": ":password>", "named elements": `name="password">`, "data": "<password><![CDATA[", "blocks": "password: |\n ", "arrows": "password -> ",
		"words": "token x", "quoted words": `token \"`, "closed": "<a>", "bearers": "Bearer ", "tcp": "a:b@tcp(", "colons": ":", "equals": "=", "dashes": "-",
		"dots": "a.", "digits": "12345678:", "hex": "0123456789abcdef", "snake": "password_", "names": `name="password" `, "spaces": " ", "lines": "\n", "is": "password is ",
		"arn": "secret:", "tilde": "8Q~", "commas": "'x_password', ", "headers": "Authorization: ", "cookies": "Cookie: a", "M": "Maaaaaaaaaaaaaaaaaaaaaaaa.", "nulls": "\x00",
		"prose": "password: is not ", "code": "password = f(", "declared": "secretKey: x ",
	} {
		t.Run(name, func(t *testing.T) {
			one, eight := strings.Repeat(part, (128<<10)/len(part)), strings.Repeat(part, (1<<20)/len(part))
			// Eight times the input takes 8 times as long if the time is linear, and 64
			// times if it is quadratic. The collector may disturb an attempt or two.
			least := time.Duration(0)
			for range 5 {
				begun := cpuTime(t)
				r.Text(one)
				middle := cpuTime(t)
				r.Text(eight)
				least = cpuTime(t) - middle - 25*(middle-begun) - time.Second/2
				if least <= 0 {
					return
				}
			}
			t.Errorf("eight times the input takes more than 25 times as long, by %v", least)
		})
	}
	const size = 4 << 20
	for name, document := range map[string]string{
		"less": `{"a":"` + strings.Repeat("<", size) + `"}`, "quotes": `{"a":"` + strings.Repeat(`\"`, size/2) + `"}`,
		"arrays": strings.Repeat("[", 9000) + strings.Repeat("]", 9000), "objects": strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000),
		"secrets": strings.Repeat(`{"secret":[`, 4000) + "1" + strings.Repeat("]}", 4000), "values": strings.Repeat(`{"value":`, 9000) + `"x"` + strings.Repeat(`,"name":"password"}`, 9000),
		"numbers": `[` + strings.Repeat("1,", size/8) + `1]`, "secret numbers": `{"secret":[` + strings.Repeat("1,", size/8) + `1]}`,
		"members": `{` + strings.Repeat(`"secret":"x",`, size/64) + `"a":1}`, "schemas": strings.Repeat(`{"secret":`, 9000) + `"x"` + strings.Repeat("}", 9000),
	} {
		t.Run("document "+name, func(t *testing.T) {
			out := r.JSON(json.RawMessage(document)) // quadratic: hours
			if !json.Valid(out) || len(out) > 3*len(document) {
				t.Errorf("%d bytes became %d", len(document), len(out))
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

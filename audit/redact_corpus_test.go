package audit

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A sample is a line of the corpus: a JSON document or a text. Its placeholders are
// replaced by random values when it is read, so that no file contains what looks like
// a real secret: <a32> by 32 letters and digits, <A> by upper-case letters and the
// digits 2 to 7, <h> by hexadecimal digits, <d> by digits, <b> by base64 for URLs, <B>
// by standard base64, <p> by a password, <u> by a UUID, and ⏎ by a line break. Secrets
// are between « and ».
type sample struct {
	line     string
	document json.RawMessage
	secrets  []string
}

var placeholder = regexp.MustCompile(`<([aAhdbBpu])(\d*)>`)

const (
	digits = "0123456789"
	lower  = "abcdefghijklmnopqrstuvwxyz"
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

func pick(random *rand.Rand, alphabet string, count int) string {
	out := make([]byte, count)
	for i := range out {
		out[i] = alphabet[random.IntN(len(alphabet))]
	}
	return string(out)
}

// fill replaces a line's placeholders.
func fill(random *rand.Rand, line string) string {
	line = strings.ReplaceAll(line, "⏎", "\n")
	return placeholder.ReplaceAllStringFunc(line, func(found string) string {
		parts := placeholder.FindStringSubmatch(found)
		count, _ := strconv.Atoi(parts[2])
		switch parts[1] {
		case "a":
			return pick(random, lower+upper+digits, count-2) + pick(random, lower, 1) + pick(random, digits, 1)
		case "A":
			return pick(random, upper+"234567", count)
		case "h":
			return pick(random, "0123456789abcdef", count)
		case "d":
			return pick(random, "123456789", count)
		case "b":
			return pick(random, lower+upper+digits, count-3) + pick(random, lower+upper+digits+"-_", 1) + pick(random, upper, 1) + pick(random, digits, 1)
		case "B":
			return pick(random, lower+upper+digits, count-3) + pick(random, lower+upper+digits+"+/", 1) + pick(random, upper, 1) + pick(random, digits, 1)
		case "u":
			return fmt.Sprintf("%s-%s-4%s-a%s-%s", pick(random, "0123456789abcdef", 8), pick(random, "0123456789abcdef", 4),
				pick(random, "0123456789abcdef", 3), pick(random, "0123456789abcdef", 3), pick(random, "0123456789abcdef", 12))
		}
		passwords := []string{"hunter%s", "Fake-Pass-%s", "not_real_%s!", "Summer%s!", "tr0ub4dor.%s", "correct-horse-%s", "x%s*Y^z"}
		return fmt.Sprintf(passwords[random.IntN(len(passwords))], pick(random, digits, 3))
	})
}

var marked = regexp.MustCompile(`(?s)«(.*?)»`)

func sampleOf(random *rand.Rand, line string) sample {
	filled := fill(random, line)
	s := sample{line: line}
	for _, found := range marked.FindAllStringSubmatch(filled, -1) {
		s.secrets = append(s.secrets, found[1])
	}
	filled = marked.ReplaceAllString(filled, "$1")
	if strings.HasPrefix(line, "{") {
		s.document = json.RawMessage(filled)
	} else {
		text, err := json.Marshal(map[string]string{"text": filled})
		if err != nil {
			panic(err)
		}
		s.document = text
	}
	return s
}

func corpus(t *testing.T, name string, seed uint64) []sample {
	t.Helper()
	file, err := os.Open("testdata/redaction/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	random := rand.New(rand.NewPCG(seed, 1))
	var samples []sample
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		s := sampleOf(random, lines.Text())
		if !json.Valid(s.document) {
			t.Fatalf("%s: not JSON: %s", name, s.document)
		}
		samples = append(samples, s)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return samples
}

// leaks returns the secrets that a document still contains, however deeply quoted.
func (s sample) leaks(redacted json.RawMessage) (left []string) {
	flat := strings.ReplaceAll(string(redacted), `\`, "")
	for _, secret := range s.secrets {
		for line := range strings.SplitSeq(secret, "\n") {
			quoted, err := json.Marshal(line)
			if err != nil {
				panic(err)
			}
			if strings.Contains(flat, strings.Trim(strings.ReplaceAll(string(quoted), `\`, ""), `"`)) {
				left = append(left, line)
			}
		}
	}
	return left
}

func recall(t *testing.T, r *Redactor, name string, samples []sample) {
	t.Helper()
	missed := 0
	for _, s := range samples {
		redacted := r.JSON(s.document)
		if !json.Valid(redacted) {
			t.Errorf("%s became invalid JSON: %s", s.document, redacted)
		}
		if len(s.secrets) == 0 {
			t.Errorf("no secret is marked in %s", s.line)
		}
		if left := s.leaks(redacted); len(left) > 0 {
			missed++
			t.Logf("missed: %s\n  gave %s", s.line, redacted)
		}
	}
	rate := 1 - float64(missed)/float64(len(samples))
	t.Logf("%s: %d shapes, %d missed, recall %.4f", name, len(samples), missed, rate)
	if rate < 0.99 {
		t.Errorf("%s: recall is %.4f, below 0.99", name, rate)
	}
}

func falsePositives(t *testing.T, r *Redactor, name string, samples []sample) {
	t.Helper()
	changed := 0
	for _, s := range samples {
		if redacted := r.JSON(s.document); string(redacted) != string(s.document) {
			changed++
			t.Logf("changed: %s\n  gave %s", s.line, redacted)
		}
	}
	rate := float64(changed) / float64(len(samples))
	t.Logf("%s: %d look-alikes, %d changed, false positives %.4f", name, len(samples), changed, rate)
	if rate > 0.01 {
		t.Errorf("%s: false positives are %.4f, above 0.01", name, rate)
	}
}

// The rules were developed against the first half of the corpus. The second was
// written after they were finished.
func TestRedactCorpus(t *testing.T) {
	r := NewRedactor(RedactorOptions{})
	for _, half := range []string{"1", "2", "3", "4", "5", "6"} {
		t.Run(half, func(t *testing.T) {
			recall(t, r, "secrets-"+half, corpus(t, "secrets-"+half+".txt", 1))
			falsePositives(t, r, "harmless-"+half, corpus(t, "harmless-"+half+".txt", 1))
		})
	}
}

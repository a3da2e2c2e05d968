package bench

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	t.Parallel()
	report := Report{
		Server: Server{Version: "15.1", Fsync: "on", SynchronousCommit: "on", StoreConnections: 4, BaselineConnections: 64},
		Workloads: []Outcome{{Name: "name", Title: "a title", Unit: "appends/s", Measurements: []Measurement{
			{Way: "agentstore", Rate: Spread{17028, 9999, 1234567}, P50: Spread{Median: 0.25}, P99: Spread{Median: 123.4}},
		}}},
		Figures: []Figure{
			{Title: "a title", Baseline: "bare INSERT", Goal: 2, Value: Spread{2.5, 2, 3}, Reached: true},
			{Title: "another", Baseline: "bare INSERT", Latency: true, Goal: 1.15, Value: Spread{1.4, 1.3, 1.5}},
			{Title: "a figure", Goal: 500_000, Value: Spread{Median: 600_000}, Reached: true},
		},
	}
	var out strings.Builder
	if err := report.WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	words := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"PostgreSQL 15.1, fsync on, synchronous_commit on",
		"agentstore 17,028 9,999 – 1,234,567 250 µs 123 ms",
		"a title bare INSERT 2.50 × 2.00 × – 3.00 × ≥ 2.00 × reached",
		"another bare INSERT, p50 1.40 × 1.30 × – 1.50 × ≤ 1.15 × NOT reached",
		"a figure (rows/s) 600,000 0 – 0 ≥ 500,000 reached",
	} {
		if !strings.Contains(words, want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

func TestPlotIsWellFormed(t *testing.T) {
	t.Parallel()
	curve := Outcome{Title: "a < b & c", Unit: "appends/s", XAxis: "writers", Measurements: []Measurement{
		{Way: "one", X: 1, Rate: Spread{100, 90, 110}},
		{Way: "one", X: 64, Rate: Spread{1000, 900, 1100}},
		{Way: "two", X: 1, Rate: Spread{}},
	}}
	decoder := xml.NewDecoder(strings.NewReader(string(curve.SVG())))
	elements := map[string]int{}
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if start, ok := token.(xml.StartElement); ok {
			elements[start.Name.Local]++
			for _, attribute := range start.Attr {
				if strings.Contains(attribute.Value, "NaN") || strings.Contains(attribute.Value, "Inf") {
					t.Errorf("%s has %s=%s", start.Name.Local, attribute.Name.Local, attribute.Value)
				}
			}
		}
	}
	if elements["polyline"] != 2 || elements["circle"] != 3 {
		t.Errorf("elements: %v", elements)
	}
}

func TestSelection(t *testing.T) {
	t.Parallel()
	count := func(names ...string) int {
		t.Helper()
		chosen, err := selected(names)
		if err != nil {
			t.Fatal(err)
		}
		return len(chosen)
	}
	if count(GroupFigures)+count(GroupCurves) != count(GroupAll) || count(GroupCurves) == 0 {
		t.Error("the groups are not all there is")
	}
	if count("stream") != 1 || count("stream", "stream", "batch-1000") != 2 {
		t.Error("names")
	}
	if Check([]string{"stream", "nonsense"}) == nil || Check([]string{""}) == nil {
		t.Error("an unknown name")
	}
	seen := map[string]bool{}
	for _, w := range workloads() {
		if seen[w.name] || !strings.Contains(Names(), w.name) {
			t.Errorf("%s is there twice, or not named", w.name)
		}
		seen[w.name] = true
		if w.isCurve() == (len(w.goals) > 0) {
			t.Errorf("%s is neither a figure nor a curve", w.name)
		}
	}
}

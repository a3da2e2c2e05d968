package cli

import (
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/usage"
)

func TestUsage(t *testing.T) {
	d := newDatabase(t)
	today := usage.DayOf(time.Now(), time.UTC)
	for view, uses := range map[repo.Store][]usage.Use{
		d.store: {
			{Day: "2026-03-30", Model: "a", Labels: [2]string{"x", "chat"}, Usage: repo.Usage{InputTokens: 10, OutputTokens: 2, Cost: 3_000_000}},
			{Day: "2026-03-31", Model: "b" + hostile, Labels: [2]string{"x"}, Usage: repo.Usage{InputTokens: 1, Cost: 1}},
			{Day: today, Model: "now"},
		},
		d.store.In("shop"): {{Day: "2026-03-31", Model: "of the shop", Usage: repo.Usage{Cost: 5}}},
	} {
		turn := repo.Turn{ID: "1", Create: &repo.NewSession{Key: "usage"}}
		if err := usage.Count(&turn, uses...); err != nil {
			t.Fatal(err)
		}
		must[repo.AppendedTurn](t)(view.Sessions().AppendTurn(t.Context(), turn))
	}
	march := []string{"--from", "2026-03-01", "--to", "2026-03-31"}
	in := func(arguments ...string) []string { return append(append([]string{"usage"}, arguments...), march...) }
	if out := d.run(in("--json")...); out != `{"day":"2026-03-30","uses":1,"input_tokens":10,"output_tokens":2,"cost_nanos":3000000}
{"day":"2026-03-31","uses":1,"input_tokens":1,"output_tokens":0,"cost_nanos":1}
` {
		t.Errorf("by day:\n%s", out)
	}
	if out := d.run(in("--by", "label2,label1", "--json")...); out != `{"label2":"","label1":"x","uses":1,"input_tokens":1,"output_tokens":0,"cost_nanos":1}
{"label2":"chat","label1":"x","uses":1,"input_tokens":10,"output_tokens":2,"cost_nanos":3000000}
` {
		t.Errorf("by labels:\n%s", out)
	}
	if out := d.run(in("--by", "model", "--namespace", "shop")...); out != `MODEL        USES  INPUT  OUTPUT  COST
of the shop     1      0       0  0.000000005
` {
		t.Errorf("of a view:\n%s", out)
	}
	d.run(in("--by", "day,model")...) // which looks at what it prints
	if got := d.values("model", "usage", "--by", "model"); got != "now" {
		t.Errorf("the last days have %q", got)
	}
	d.refuses(exitUsage, "from is not a date", "usage", "--from", "yesterday")
	d.refuses(exitUsage, "to is not a date", "usage", "--from", "2026-03-01", "--to", "2026-02-30")
	d.refuses(exitUsage, "to is before from", "usage", "--from", "2026-03-02", "--to", "2026-03-01")
	d.refuses(exitUsage, `--by: "modell" is not one of day, model, label1, label2. Did you mean model?`, "usage", "--by", "modell")
	d.refuses(exitUsage, "--by: day is given twice", "usage", "--by", "day,day")
	d.refuses(exitUsage, "--by", "usage", "--by", "day,")
}

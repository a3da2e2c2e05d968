package inspect_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/inspect"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/usage"
)

// counted stores a turn that has used something, in a store or a view.
func counted(t testing.TB, store repo.Store, used ...usage.Use) {
	t.Helper()
	turn := repo.Turn{Create: &repo.NewSession{Key: "counted"}, ID: repo.NewID().String()}
	if err := usage.Count(&turn, used...); err != nil {
		t.Fatal(err)
	}
	must[repo.AppendedTurn](t)(store.Sessions().AppendTurn(t.Context(), turn))
}

func in(store repo.Store, namespace string) repo.Store {
	return store.(interface{ In(string) repo.Store }).In(namespace)
}

// figures are a page of usage as JSON.
type figures struct {
	Total *amounts
	Days  struct {
		Next  string
		Items []struct {
			Day, Model string
			amounts

			OfDay repo.Cost `json:"cost_of_the_day"`
		}
	}
	Labels *struct {
		Note  string
		Items []struct {
			Model  string
			Label1 string `json:"label_1"`
			Label2 string `json:"label_2"`
			amounts
		}
	}
}

type amounts struct {
	Uses   int64
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
	Cost   repo.Cost
}

// figures reads a page. The query begins with a question mark, or is empty.
func (c *client) figures(query string) (f figures) {
	c.t.Helper()
	separator := map[bool]string{true: "&", false: "?"}[strings.Contains(query, "?")]
	if err := json.Unmarshal([]byte(c.get("/usage"+query+separator+"format=json", http.StatusOK)), &f); err != nil {
		c.t.Fatal(err)
	}
	return f
}

var march = "?from=2026-03-01&to=2026-03-31"

func spent(day usage.Day, model, label string, cost repo.Cost) usage.Use {
	return usage.Use{Day: day, Model: model, Labels: [2]string{label, "chat"}, Usage: repo.Usage{InputTokens: 1000, OutputTokens: 10, Cost: cost}}
}

// TestUsage: the sums are those of the days and the namespace that are asked for, by day and model, and by model and labels.
func TestUsage(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	counted(t, in(store, "shop"), spent("2026-03-02", "large", "acme", 3_000_000_000), spent("2026-03-02", "small", "acme", 500_000_000))
	counted(t, in(store, "shop"), spent("2026-03-02", "large", "emca", 1_000_000_000))
	counted(t, in(store, "shop"), spent("2026-03-30", "small", "acme", 1), spent("2026-02-28", "early", "acme", 7), spent("2026-04-01", "late", "acme", 7))
	counted(t, store, spent("2026-03-02", "default's", "acme", 11))
	blind := inspect.Access{Viewer: "ada", AllNamespaces: true} // sees names and sizes
	for name, c := range map[string]*client{
		"of all":     newClient(t, store, blind),
		"a tenant's": newClient(t, store, inspect.Access{Viewer: "ada", Namespace: "shop"}),
	} {
		f := c.figures(march + "&namespace=shop")
		if want := (amounts{4, 4000, 40, 4_500_000_001}); *f.Total != want {
			t.Errorf("%s: %+v", name, *f.Total)
		}
		if got, want := fmt.Sprint(f.Days.Items), "[{2026-03-30 small {1 1000 10 0.000000001} 0.000000001} {2026-03-02 large {2 2000 20 4} 4.5} {2026-03-02 small {1 1000 10 0.5} 4.5}]"; got != want {
			t.Errorf("%s: %s", name, got)
		}
		if got, want := fmt.Sprint(f.Labels.Items), "[{large acme chat {1 1000 10 3}} {large emca chat {1 1000 10 1}} {small acme chat {2 2000 20 0.500000001}}]"; got != want {
			t.Errorf("%s: %s", name, got)
		}
		page := c.get("/usage"+march+"&namespace=shop", http.StatusOK)
		for _, text := range []string{">4,000<", ">4.500000001<", ">4.5<", `value="2026-03-01"`, `value="2026-03-31"`, `aria-current="page">Usage<`} {
			if !strings.Contains(page, text) {
				t.Errorf("%s: the page does not have %s: %s", name, text, page)
			}
		}
		if strings.Count(page, ">4.5<") != 1 || strings.Contains(page, "default's") {
			t.Errorf("%s: the cost of a day is repeated, or another namespace's is shown: %s", name, page)
		}
	}
	if f := newClient(t, store, blind).figures(march); f.Total.Cost != 11 || len(f.Days.Items) != 1 {
		t.Errorf("the default namespace: %+v", f)
	}
	if f := newClient(t, store, inspect.Access{Viewer: "ada", Namespace: "other"}).figures(march + "&namespace=shop"); f.Total.Uses != 0 || len(f.Days.Items)+len(f.Labels.Items) > 0 {
		t.Errorf("another tenant: %+v", f)
	}
	view := newClient(t, in(store, "shop"), blind)
	view.get("/usage"+march+"&namespace=other", http.StatusNotFound)
	if page := view.get("/usage"+march, http.StatusOK); !strings.Contains(page, "large") || strings.Contains(page, "Namespace <b>") {
		t.Errorf("a store that cannot say of which namespace it is: %s", page)
	}
}

// TestUsageDays: without days there are the last 30; what is no day, and too many, is refused.
func TestUsageDays(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	c := newClient(t, store, operator)
	if f := c.figures(""); *f.Total != (amounts{}) || len(f.Days.Items)+len(f.Labels.Items) > 0 {
		t.Errorf("of nothing: %+v", f)
	}
	if page := c.get("/usage", http.StatusOK); !strings.Contains(page, "No turn of these days was counted.") || strings.Contains(page, "<svg") {
		t.Errorf("of nothing: %s", page)
	}
	now := time.Now() // it may be another day when the page is made
	for ago, model := range map[int]string{0: "now", 28: "recent", 31: "old", -2: "later"} {
		counted(t, store, spent(usage.DayOf(now.AddDate(0, 0, -ago), nil), model, "", 1))
	}
	if f := c.figures(""); len(f.Days.Items) != 2 || f.Days.Items[0].Model != "now" || f.Days.Items[1].Model != "recent" {
		t.Errorf("the last days: %+v", f)
	}
	if page := c.get("/usage?to=2026-03-31", http.StatusOK); !strings.Contains(page, `value="2026-03-02"`) {
		t.Errorf("up to a day: %s", page)
	}
	c.get("/usage?from=2024-01-01&to=2024-12-31", http.StatusOK)
	for _, query := range []string{
		"from=x", "to=x", "from=2026-02-30", "to=0000-01-01", "from=2026-03-02&to=2026-03-01", "from=2024-01-01&to=2025-01-01", "from=0001-01-01", "to=10000-01-01",
		"from=9999-01-01", "from=%00", "after=x", "from=" + strings.Repeat("9", 10_000),
	} {
		if page := c.get("/usage?"+query, http.StatusBadRequest); len(page) > 10_000 {
			t.Errorf("%s is in the page", query)
		}
	}
}

// TestUsagePages: each row is on one page, however many there are, and the sums are of all.
func TestUsagePages(t *testing.T) {
	t.Parallel()
	for _, count := range []int{49, 50, 51, 100, 137} {
		store := newStore(t)
		c := newClient(t, store, operator)
		for i := range count {
			counted(t, store, spent(usage.Day(fmt.Sprintf("2026-03-%02d", 1+i%3)), fmt.Sprintf("<model>\u202e&%03d", i), fmt.Sprintf("label %03d", i), repo.Cost(i)))
		}
		var seen []string
		pages := 0
		for at := march; at != ""; pages++ {
			f := c.figures(at)
			if (f.Total != nil) != (pages == 0) || (f.Labels != nil) != (pages == 0) {
				t.Errorf("%d, page %d: %+v", count, pages, f)
			}
			if pages == 0 && (f.Total.Uses != int64(count) || len(f.Labels.Items) != min(count, 50) || (f.Labels.Note != "") != (count > 50) || f.Labels.Items[0].Cost != repo.Cost(count-1)) {
				t.Errorf("%d: %+v", count, f)
			}
			for _, row := range f.Days.Items {
				seen = append(seen, row.Day+row.Model)
			}
			at = strings.TrimPrefix(f.Days.Next, "/usage")
		}
		distinct := slices.Compact(slices.Sorted(slices.Values(seen)))
		if len(seen) != count || len(distinct) != count || pages != (count+49)/50 {
			t.Errorf("%d rows on %d pages, %d of them distinct; want %d", len(seen), pages, len(distinct), count)
		}
	}
}

// TestUsagePlot: the plot has a bar for each day that has cost something, a name and a description, and needs nothing that the
// Content-Security-Policy forbids. What it shows is in the table.
func TestUsagePlot(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	c := newClient(t, store, operator)
	counted(t, store, spent("2026-03-01", "m", "", 1), spent("2026-03-10", "m", "", 0), spent("2026-03-30", "m", "", math.MaxInt64/4), spent("2026-03-31", "m", "", math.MaxInt64/2))
	page := c.get("/usage"+march, http.StatusOK)
	var bars []string
	for _, found := range regexp.MustCompile(`<rect x="(\d+)" y="(\d+)" width="8" height="(\d+)"><title>([^<]*)<`).FindAllStringSubmatch(page, -1) {
		bars = append(bars, strings.Join(found[1:], " "))
		_, cost, _ := strings.Cut(found[4], ": ")
		if strings.Count(page, `<span class="number">`+cost+"</span>") != 2 { // of the model, and of the day
			t.Errorf("the table does not have %s", cost)
		}
	}
	if got, want := fmt.Sprintf("%q", bars), `["1 992 8 2026-03-01: 0.000000001" "291 500 500 2026-03-30: 2305843009.213693951" "301 0 1000 2026-03-31: 4611686018.427387903"]`; got != want {
		t.Errorf("the bars are %s", got)
	}
	for _, part := range []string{
		`viewBox="0 0 310 1000"`, `role="img" aria-labelledby="plot-title" aria-describedby="plot-desc"`, `<title id="plot-title">Cost by day<`,
		`<desc id="plot-desc">From 2026-03-01 to 2026-03-31. The day with the highest cost is 2026-03-31: 4611686018.427387903.`,
	} {
		if strings.Count(page, part) != 1 {
			t.Errorf("the page does not have %s: %s", part, page)
		}
	}
	plot, _, _ := strings.Cut(page[strings.Index(page, "<svg"):], "</svg>")
	if regexp.MustCompile(`style|fill=|href|xmlns`).MatchString(plot) {
		t.Errorf("the plot is %s", plot)
	}
	free := newStore(t)
	counted(t, free, spent("2026-03-01", "m", "", 0))
	if page := newClient(t, free, operator).get("/usage"+march, http.StatusOK); strings.Contains(page, "<svg") || !strings.Contains(page, "1,000") {
		t.Errorf("of what costs nothing: %s", page)
	}
}

// TestUsageRefused: a sum that is too large, and what is no counter, is said, and nothing is shown in its place.
func TestUsageRefused(t *testing.T) {
	t.Parallel()
	for name, fill := range map[string]func(repo.Store){
		"too large": func(store repo.Store) {
			counted(t, store, spent("2026-03-01", "m", "", math.MaxInt64))
			counted(t, store, spent("2026-03-02", "m", "", 1))
		},
		"no counter": func(store repo.Store) {
			scopes := must[[]string](t)(usage.Scopes("2026-03-01", "2026-03-01"))
			must[[]repo.ScopeVersion](t)(store.State().Change(t.Context(), []repo.StateChange{{
				Scope: repo.Scope{Name: scopes[0]}, Key: repo.JoinKey("cost", "m", "", ""), Value: []byte(`"` + secret + `"`),
			}}))
		},
	} {
		store := newStore(t)
		fill(store)
		w := newClient(t, store, operator).do(httptest.NewRequest(http.MethodGet, "/usage"+march, nil))
		if page := w.Body.String(); w.Code != http.StatusConflict || strings.Contains(page, "<svg") || strings.Contains(page, secret) {
			t.Errorf("%s: status %d: %s", name, w.Code, page)
		}
	}
}

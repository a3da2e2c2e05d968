package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/usage"
)

// A page of usage has up to maxDays, and usualDays if the request does not say which.
const maxDays, usualDays, aDay = 366, 30, 24 * time.Hour

const amounts = "Uses InputTokens OutputTokens Cost"

// usage shows what turns of the namespace that is looked at have used. It reads all counters of its days.
func (l *look) usage() *page {
	if _, has := l.Inspector.store.(views); !has && l.chosen {
		check(&repo.NotFoundError{Kind: "namespace"})
	} else if !has {
		l.namespace = "" // the counters are of one namespace, and the store does not say of which
	}
	to := l.day("to", time.Now().UTC().Truncate(aDay))
	from := l.day("from", to.AddDate(0, 0, 1-usualDays))
	if to.Sub(from) >= maxDays*aDay {
		check(&repo.InvalidError{Field: "from", Reason: fmt.Sprintf("and to are more than %d days", maxDays)})
	}
	query := usage.Query{From: usage.DayOf(from, nil), To: usage.DayOf(to, nil)}
	query.By = []usage.Dimension{usage.ByDay, usage.ByModel, usage.ByLabel1, usage.ByLabel2}
	rows := ok(usage.Report(l.ctx, l.in(l.namespace).State(), query))
	total := append(sums(rows, func(usage.Row) usage.Row { return usage.Row{} }), usage.Row{})[0]
	days := sums(rows, func(r usage.Row) usage.Row { return usage.Row{Day: r.Day} })
	p := &page{Title: "Usage", Current: "Usage", Sections: []section{l.usedByDay(rows, days)}}
	if l.r.FormValue("after") == "" {
		about := section{Key: "total", Title: fmt.Sprintf("From %s to %s", query.From, query.To)}
		about.Fields, about.Plot = l.fields(total, false, amounts), drawn(from, to, days)
		p.Sections = []section{about, p.Sections[0], l.usedByLabels(rows)}
	}
	p.Sections[0].Form = l.keep(&form{Method: "get", Button: "Show", Inputs: []input{
		{"from", "From", "date", string(query.From)}, {"to", "To", "date", string(query.To)},
	}})
	return p
}

// day reads a parameter.
func (l *look) day(name string, otherwise time.Time) time.Time {
	day, err := time.Parse(time.DateOnly, cmp.Or(l.r.FormValue(name), otherwise.Format(time.DateOnly)))
	if err != nil {
		check(&repo.InvalidError{Field: name, Reason: "is not a date such as 2006-01-02"})
	}
	return day
}

// sums adds up the rows for which by returns the same.
func sums(rows []usage.Row, by func(usage.Row) usage.Row) (all []usage.Row) {
	at := map[usage.Row]int{}
	for _, r := range rows {
		i, found := at[by(r)]
		if !found {
			i, all = len(all), append(all, by(r))
			at[by(r)] = i
		}
		sum := &all[i]
		for of, more := range map[*int64]int64{
			&sum.Uses: r.Uses, (*int64)(&sum.Cost): int64(r.Cost),
			&sum.InputTokens: r.InputTokens, &sum.OutputTokens: r.OutputTokens,
		} {
			if *of += more; *of < 0 { // none of what is added is
				check(&repo.RefusedError{Kind: "state", Name: "usage", Reason: "has a sum of more than 64 bits"})
			}
		}
	}
	return all
}

// usedByDay is a page of the sums by day and model, the last day first. The first row of a day has the cost of the day.
func (l *look) usedByDay(rows, days []usage.Row) section {
	all := sums(rows, func(r usage.Row) usage.Row { return usage.Row{Day: r.Day, Model: r.Model} })
	slices.SortStableFunc(all, func(a, b usage.Row) int { return cmp.Compare(b.Day, a.Day) })
	s := section{Key: "days", Title: "By day and model", Empty: "No turn of these days was counted."}
	name := func(r usage.Row) string { return string(r.Day) + " " + r.Model }
	if after := l.r.FormValue("after"); after != "" {
		last := slices.IndexFunc(all, func(r usage.Row) bool { return name(r) == after })
		if last < 0 {
			check(&repo.InvalidError{Field: "after", Reason: "is not the last row of a page"})
		}
		all = all[last+1:]
	}
	if len(all) > pageSize {
		all = all[:pageSize]
		s.Next = l.next(name(all[pageSize-1]))
	}
	s = l.table(s, all, false, "Day Model "+amounts)
	s.Columns = append(s.Columns, "Cost of the day")
	for i, r := range all {
		of := slices.IndexFunc(days, func(d usage.Row) bool { return d.Day == r.Day })
		cost := l.fields(days[of], false, "Cost")[0].value
		if i > 0 && all[i-1].Day == r.Day {
			cost.Text = ""
		}
		s.Rows[i] = append(s.Rows[i], cost)
	}
	return s
}

// usedByLabels has the sums by model and labels with the highest cost.
func (l *look) usedByLabels(rows []usage.Row) section {
	all := sums(rows, func(r usage.Row) usage.Row { return usage.Row{Model: r.Model, Labels: r.Labels} })
	slices.SortStableFunc(all, func(a, b usage.Row) int { return cmp.Compare(b.Cost, a.Cost) })
	s := section{Key: "labels", Title: "By model and labels", Empty: "None."}
	if len(all) > pageSize {
		s.Note = fmt.Sprintf("The %d with the highest cost, of %s.", pageSize, grouped(int64(len(all))))
		all = all[:pageSize]
	}
	s = l.table(s, all, false, "Model "+amounts)
	s.Columns = slices.Insert(s.Columns, 1, "Label 1", "Label 2")
	for i, r := range all {
		s.Rows[i] = slices.Insert(s.Rows[i], 1, text(r.Labels[0]), text(r.Labels[1]))
	}
	return s
}

// plot shows the cost by day, which the table has, too.
type plot struct {
	Width             int // ten for each day
	From, To, Highest string
	Bars              []bar
}

// bar is a day. The highest one is 1,000 high.
type bar struct {
	X, Y, Height int
	Text         string
}

// drawn returns the plot. Nil: nothing has cost anything.
func drawn(from, to time.Time, days []usage.Row) *plot {
	days = slices.DeleteFunc(slices.Clone(days), func(d usage.Row) bool { return d.Cost == 0 })
	if len(days) == 0 {
		return nil
	}
	say := func(d usage.Row) string { return fmt.Sprintf("%s: %s", d.Day, d.Cost) }
	highest := slices.MaxFunc(days, func(a, b usage.Row) int { return cmp.Compare(a.Cost, b.Cost) })
	p := &plot{10 * int(to.Sub(from)/aDay+1), from.Format(time.DateOnly), to.Format(time.DateOnly), say(highest), nil}
	for _, d := range days {
		day, _ := time.Parse(time.DateOnly, string(d.Day))
		height := max(8, int(1000*d.Cost.Units()/highest.Cost.Units()))
		p.Bars = append(p.Bars, bar{10*int(day.Sub(from)/aDay) + 1, 1000 - height, height, say(d)})
	}
	return p
}

package bench

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// The plot's size and its margins, in pixels.
const (
	plotWidth, plotHeight             = 760, 440
	plotLeft, plotRight, plotTop, low = 80, 20, 50, 60 // low: below the axis
)

// colours that most people can tell apart.
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"}

// SVG plots a curve with two logarithmic axes: a line for each way, and bars from
// its lowest to its highest round.
func (o Outcome) SVG() []byte {
	value := func(m Measurement) Spread { return m.Rate }
	unit := o.Unit
	if o.Latency {
		value, unit = func(m Measurement) Spread { return m.P50 }, "ms, p50"
	}
	var xs, ys []float64
	var ways []string
	for _, m := range o.Measurements {
		xs = append(xs, m.X)
		ys = append(ys, value(m).Low, value(m).High)
		if !slices.Contains(ways, m.Way) {
			ways = append(ways, m.Way)
		}
	}
	x := scale{first: slices.Min(xs), last: slices.Max(xs), from: plotLeft, to: plotWidth - plotRight}
	y := scale{first: decade(slices.Min(ys), math.Floor), last: decade(slices.Max(ys), math.Ceil), from: plotHeight - low, to: plotTop}

	var svg strings.Builder
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		plotWidth, plotHeight, plotWidth, plotHeight)
	fmt.Fprintf(&svg, `<rect width="100%%" height="100%%" fill="white"/>`+"\n")
	label(&svg, plotLeft, 20, "start", 15, o.Title)
	label(&svg, (plotLeft+plotWidth-plotRight)/2, plotHeight-20, "middle", 12, o.XAxis)
	label(&svg, 8, plotTop-12, "start", 12, unit)
	slices.Sort(xs)
	for _, at := range slices.Compact(xs) {
		line(&svg, x.at(at), plotTop, x.at(at), plotHeight-low, "#eee")
		label(&svg, x.at(at), plotHeight-low+18, "middle", 12, grouped(at))
	}
	for at := y.first; at <= y.last*1.001; at *= 10 {
		line(&svg, plotLeft, y.at(at), plotWidth-plotRight, y.at(at), "#ccc")
		label(&svg, plotLeft-8, y.at(at)+4, "end", 12, tick(at))
	}
	for i, way := range ways {
		colour := colours[i%len(colours)]
		var points []string
		for _, m := range o.Measurements {
			if m.Way != way {
				continue
			}
			v := value(m)
			px, py := x.at(m.X), y.at(v.Median)
			points = append(points, fmt.Sprintf("%.1f,%.1f", px, py))
			line(&svg, px, y.at(v.Low), px, y.at(v.High), colour)
			fmt.Fprintf(&svg, `<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"/>`+"\n", px, py, colour)
		}
		fmt.Fprintf(&svg, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(points, " "), colour)
		// The legend is above the plot, in columns.
		left := plotLeft + 170*(i%4)
		top := float64(34 + 14*(i/4))
		fmt.Fprintf(&svg, `<rect x="%d" y="%.0f" width="10" height="10" fill="%s"/>`+"\n", left, top-9, colour)
		label(&svg, float64(left+14), top, "start", 11, way)
	}
	svg.WriteString("</svg>\n")
	return []byte(svg.String())
}

// scale is a logarithmic axis: it maps values from first to last to pixels.
type scale struct{ first, last, from, to float64 }

func (s scale) at(value float64) float64 {
	if s.last <= s.first || value <= 0 {
		return s.from
	}
	return s.from + (s.to-s.from)*math.Log(value/s.first)/math.Log(s.last/s.first)
}

// decade returns a power of ten near value.
func decade(value float64, round func(float64) float64) float64 {
	return math.Pow(10, round(math.Log10(max(value, 1e-6))))
}

// tick formats a number of an axis.
func tick(value float64) string {
	if value < 1 {
		return fmt.Sprintf("%g", math.Round(value*1e6)/1e6)
	}
	return grouped(value)
}

func line(svg *strings.Builder, x1, y1, x2, y2 float64, colour string) {
	fmt.Fprintf(svg, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>`+"\n", x1, y1, x2, y2, colour)
}

func label(svg *strings.Builder, x, y float64, anchor string, size int, text string) {
	fmt.Fprintf(svg, `<text x="%.1f" y="%.1f" text-anchor="%s" font-size="%d">%s</text>`+"\n", x, y, anchor, size, html.EscapeString(text))
}

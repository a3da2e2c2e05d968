// Command prose prints, for each document, its words, and in 100 of them its negations and its vague pronouns.
//
//	prose [-at REVISION]
//
// Run it in the root of the repository. With -at it counts the documents of an earlier revision. Code, headings,
// links' targets and comments are no prose. What programs write is left out.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

// count is what one document has. Words are of the file, as tests/cmd/size bounds them; the others are of its prose.
type count struct {
	name                string
	words               int
	negations, pronouns []string
	inHundred, vague    float64
}

var (
	generated = []string{"docs/guarantees.md", "docs/costs.md", "docs/data-model.md"}

	notProse = regexp.MustCompile("(?ms)^ *```.*?^ *```[ \t]*$|^#.*?$|<!--.*?-->|`[^`\n]*`|\\]\\([^)]*\\)|https?://\\S+")
	word     = regexp.MustCompile(`[\pL\d][\pL\d'’-]*`)

	negation = regexp.MustCompile(`(?i)\b(not|no|never|none|nothing|nobody|nowhere|neither|nor|without|cannot|\w+n['’]t)\b`)
	// A pronoun is vague if the reader has to find out what it stands for: a person who is a process, or a noun that
	// is left out.
	pronoun = regexp.MustCompile(`(?i)\b(somebody|someone|nobody|everybody|anybody|whoever|who|that of|the one that|one that|all that|` +
		`those (?:that|of|who|with|for|in|which)|what (?:is|was|has|have|it|they))\b`)
)

func main() {
	revision := flag.String("at", "", "count the documents of this revision")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *revision)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, revision string) error {
	counts, err := documents(ctx, revision)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "words\tnegations\tpronouns\t  in 100 words of")
	for _, c := range counts {
		fmt.Fprintf(table, "%d\t%.2f\t%.2f\t  %s\n", c.words, c.inHundred, c.vague, c.name)
	}
	return table.Flush()
}

// documents returns the counts of all documents that git knows, now or at a revision.
func documents(ctx context.Context, revision string) ([]count, error) {
	list := []string{"ls-files", "--cached", "--others", "--exclude-standard", "*.md"}
	if revision != "" {
		list = []string{"ls-tree", "-r", "--name-only", revision}
	}
	names, err := git(ctx, list...)
	if err != nil {
		return nil, err
	}
	var counts []count
	for name := range strings.FieldsSeq(names) {
		if path.Ext(name) != ".md" || slices.Contains(generated, name) {
			continue
		}
		text, err := read(ctx, revision, name)
		if err != nil {
			return nil, err
		}
		counts = append(counts, countIn(name, text))
	}
	return counts, nil
}

func read(ctx context.Context, revision, name string) (string, error) {
	if revision != "" {
		return git(ctx, "show", revision+":"+name)
	}
	text, err := os.ReadFile(name)
	return string(text), err
}

func countIn(name, text string) count {
	prose := notProse.ReplaceAllString(text, " ")
	c := count{
		name: name, words: len(strings.Fields(text)),
		negations: negation.FindAllString(prose, -1), pronouns: pronoun.FindAllString(prose, -1),
	}
	if all := float64(len(word.FindAllString(prose, -1))); all > 0 {
		c.inHundred, c.vague = 100*float64(len(c.negations))/all, 100*float64(len(c.pronouns))/all
	}
	return c
}

func git(ctx context.Context, arguments ...string) (string, error) {
	output, err := exec.CommandContext(ctx, "git", arguments...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(arguments, " "), err)
	}
	return string(output), nil
}

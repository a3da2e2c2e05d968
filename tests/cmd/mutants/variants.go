package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Building the tests takes longer than running one. So the functions that mutants of Go change
// are built once, all of them: a changed function stands beside the unchanged one under another
// name, and the unchanged one calls it if the environment says so.

const mutantNumber = "AGENTSTORE_MUTANT"

const variantFile = "mutants.go"

const variantSource = `package %s

import "os"

var mutantNumber = os.Getenv("` + mutantNumber + `")

func mutantIs(number string) bool { return mutantNumber == number }
`

// variant is a changed function, and from which line to which it stands in its file.
type variant struct {
	number   int
	path     string
	from, to int
}

// addVariants adds the changed functions to the copy. unfit says why some cannot be built.
func (b *bench) addVariants(ctx context.Context, found []edited) (unfit map[int]string, err error) {
	unfit = map[int]string{}
	for {
		variants, packages, err := b.writeVariants(found, unfit)
		if err != nil || len(packages) == 0 {
			return unfit, err
		}
		output, err := b.run(ctx, "go", append([]string{"vet"}, packages...)...)
		if err == nil {
			return unfit, nil
		}
		if !blame(variants, string(output), unfit) {
			return nil, errors.Join(ctx.Err(), fmt.Errorf("go vet: %w\n%s", err, output))
		}
	}
}

var position = regexp.MustCompile(`(?m)^(?:vet: )?(?:\./)?(\S+\.go):(\d+):.*$`)

// blame notes which variants the output of go vet is about. It reports false if that is none.
func blame(variants []variant, output string, unfit map[int]string) (some bool) {
	for _, line := range position.FindAllStringSubmatch(output, -1) {
		at, _ := strconv.Atoi(line[2])
		for _, v := range variants {
			if v.path == line[1] && v.from <= at && at <= v.to && unfit[v.number] == "" {
				unfit[v.number], some = line[0], true
			}
		}
	}
	return some
}

// writeVariants writes the changed functions that are not unfit, and returns their packages.
func (b *bench) writeVariants(found []edited, unfit map[int]string) (variants []variant, packages []string, err error) {
	byFile := map[string][]int{}
	for i, e := range found {
		if e.function != nil {
			byFile[e.path] = append(byFile[e.path], i)
		}
	}
	for file, numbers := range byFile {
		text := found[numbers[0]].text
		lines := 1 + strings.Count(text, "\n")
		var calls []edit
		var changed strings.Builder
		for _, i := range numbers {
			if unfit[i] != "" {
				continue
			}
			function := "\n" + found[i].variant(i)
			calls = append(calls, edit{found[i].function.body, found[i].function.body, found[i].function.switched(i)})
			variants = append(variants, variant{i, file, lines, lines + strings.Count(function, "\n")})
			lines += strings.Count(function, "\n")
			changed.WriteString(function)
		}
		slices.SortStableFunc(calls, func(a, b edit) int { return a.from - b.from })
		content := edited{text: text, edits: calls}.apply() + changed.String()
		if err := os.WriteFile(filepath.Join(b.dir, filepath.FromSlash(file)), []byte(content), 0o755); err != nil {
			return nil, nil, err
		}
		pkg := path.Dir(file)
		packages = append(packages, "./"+pkg)
		source := fmt.Sprintf(variantSource, found[numbers[0]].function.pkg)
		if err := os.WriteFile(filepath.Join(b.dir, filepath.FromSlash(pkg), variantFile), []byte(source), 0o755); err != nil {
			return nil, nil, err
		}
	}
	slices.Sort(packages)
	return variants, slices.Compact(packages), nil
}

// goFunction is where the parts of a function are in its file, and what calls it.
type goFunction struct {
	pkg         string
	whole, name span
	// body is behind its opening brace.
	body int
	// callee is the function, perhaps with its receiver; arguments are its parameters.
	callee, arguments string
	results           bool
}

func nameOf(number int) string { return "_mutant" + strconv.Itoa(number) }

// switched calls a changed function instead.
func (f *goFunction) switched(number int) string {
	call := f.callee + nameOf(number) + "(" + f.arguments + ")"
	if f.results {
		call = "return " + call
	} else {
		call += "; return"
	}
	return " if mutantIs(\"" + strconv.Itoa(number) + "\") { " + call + " };"
}

// variant returns the changed function.
func (e edited) variant(number int) string {
	f := e.function
	part := edited{text: e.text[f.whole.from:f.whole.to]}
	part.edits = append(part.edits, edit{f.name.to - f.whole.from, f.name.to - f.whole.from, nameOf(number)})
	for _, one := range e.edits {
		part.edits = append(part.edits, edit{one.from - f.whole.from, one.to - f.whole.from, one.with})
	}
	return part.apply() + "\n"
}

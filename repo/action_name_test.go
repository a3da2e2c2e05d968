package repo_test

import (
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

func TestParseActionName(t *testing.T) {
	longest := strings.Repeat("n", 100)
	for text, want := range map[string]repo.ActionName{
		"review":                                {Namespace: "local", Name: "review"},
		"local/review":                          {Namespace: "local", Name: "review"},
		"team/review":                           {Namespace: "team", Name: "review"},
		"host:team/review":                      {Server: "host", Namespace: "team", Name: "review"},
		"h.o-s_t:t.e-a_m/R.e-v_1":               {Server: "h.o-s_t", Namespace: "t.e-a_m", Name: "R.e-v_1"},
		"0/0":                                   {Namespace: "0", Name: "0"},
		longest:                                 {Namespace: "local", Name: longest},
		longest + ":" + longest + "/" + longest: {Server: longest, Namespace: longest, Name: longest},
	} {
		got, err := repo.ParseActionName(text)
		if err != nil || got != want {
			t.Errorf("%q: got %+v, %v, want %+v", text, got, err, want)
		}
	}
	long := strings.Repeat("n", 101)
	for want, faulty := range map[string][]string{
		"has a name": {
			"", "team/", "host:team/", "host:review", ":review", "a:b", "-review", ".review", "_review", "team/-x",
			"a/b/c", "a//c", "team/a:b", "re view", " review", "review ", "review\n", "team/é", "team/\x00", "team/\xff", long, "team/" + long,
			"team/" + secret + "!",
		},
		"has a namespace": {"/", "/review", "host:/review", "a:b:c/review", "-team/review", "te am/review", "é/review", long + "/review", "host:" + long + "/x"},
		"has a server":    {":team/review", "-host:team/review", "ho st:team/review", ":/x", long + ":team/review", "\xff:team/review"},
	} {
		for _, text := range faulty {
			_, err := repo.ParseActionName(text)
			t.Run(text, func(t *testing.T) { wantInvalid(t, err, "action", want) })
		}
	}
}

// Whatever is accepted has one full form, which is read back as the same name.
func FuzzParseActionName(f *testing.F) {
	for _, text := range []string{"a", "a/b", "s:a/b", "s:a", "/", ":", "a/b/c", "a:b:c/d", "é", "a\n", strings.Repeat("a", 101)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		name, err := repo.ParseActionName(text)
		if err != nil {
			if name != (repo.ActionName{}) {
				t.Errorf("%q is refused and gives %+v", text, name)
			}
			return
		}
		full := name.String()
		again, err := repo.ParseActionName(full)
		if err != nil || again != name {
			t.Errorf("%q is %+v, whose form %q is read as %+v, %v", text, name, full, again, err)
		}
		if full != text && full != "local/"+text {
			t.Errorf("%q has the full form %q", text, full)
		}
	})
}

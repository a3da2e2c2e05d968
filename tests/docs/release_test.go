package docs

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/seed-df90f812/agentstore"

// goMods returns the go.mod of each adapter by its directory below adapters/.
func goMods(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "adapters", "*", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	mods := map[string]string{}
	for _, path := range paths {
		mods[filepath.Base(filepath.Dir(path))] = read(t, path)
	}
	return mods
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestAdapterReadmes checks that each adapter's README says how to fetch it. The command names
// agentstore, too: the adapter's go.mod may require a version that does not exist.
func TestAdapterReadmes(t *testing.T) {
	t.Parallel()
	for adapter, mod := range goMods(t) {
		if adapter == "tests" {
			continue
		}
		path := module + "/adapters/" + adapter
		if !strings.HasPrefix(mod, "module "+path+"\n") {
			t.Errorf("adapters/%s has another module: %.80s", adapter, mod)
		}
		if line := "\ngo get " + module + " " + path + "\n"; !strings.Contains(read(t, filepath.Join(root, "adapters", adapter, "README.md")), line) {
			t.Errorf("the README of adapters/%s does not have the line %q", adapter, line)
		}
	}
}

// repository is a copy of the repository, with a history of its own.
type repository struct {
	t         *testing.T
	directory string
}

// newRepository copies the files of agentstore, of the command and of the adapters.
func newRepository(t *testing.T) repository {
	t.Helper()
	r := repository{t, t.TempDir()}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if slices.Contains([]string{".git", ".cache", "bin", "tests", "tools"}, name) {
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		target := filepath.Join(r.directory, name)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	r.run(nil, "git init -q -b main . && git add . && git commit -qm begin")
	return r
}

func (r repository) run(environment []string, script string) string {
	r.t.Helper()
	output, err := r.try(environment, script)
	if err != nil {
		r.t.Fatalf("%v\n%s", err, output)
	}
	return output
}

func (r repository) try(environment []string, script string) (output string, err error) {
	return try(r.t, r.directory, environment, script)
}

// try runs a script in a directory, outside of the workspace, with a git that has no settings but these.
func try(t *testing.T, directory string, environment []string, script string) (output string, err error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "bash", "-euc", script)
	command.Dir = directory
	command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	command.Env = append(command.Env, environment...)
	combined, err := command.CombinedOutput()
	return string(combined), err
}

// release runs what CONTRIBUTING.md says of a release.
func (r repository) release() {
	r.t.Helper()
	_, release, _ := strings.Cut(read(r.t, filepath.Join(root, "CONTRIBUTING.md")), "\n## A release\n")
	blocks := block.FindAllStringSubmatch(release, -1)
	if len(blocks) != 1 || blocks[0][1] != "sh" {
		r.t.Fatalf("CONTRIBUTING.md has %d blocks for a release, want one", len(blocks))
	}
	r.run(nil, blocks[0][2])
}

// TestRelease makes a release of a copy, and checks what is to be true after one. For go and git the copy is the
// repository at GitHub.
func TestRelease(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	u := newUser(t, r)
	r.release()
	t.Run("Steps", func(t *testing.T) { t.Parallel(); testReleaseSteps(t, repository{t, r.directory}) })
	t.Run("README", func(t *testing.T) { t.Parallel(); u.t = t; testReadmeLines(t, u) })
}

// testReleaseSteps checks that after a release each module that requires agentstore requires the
// version, and that each has a tag, on one commit.
func testReleaseSteps(t *testing.T, r repository) {
	if changed := r.run(nil, "git status --porcelain"); changed != "" {
		t.Errorf("not committed: %s", changed)
	}
	directories := []string{"cmd/agentstore", "otelagentstore"}
	tags := []string{"v0.1.0", "cmd/agentstore/v0.1.0", "otelagentstore/v0.1.0"}
	for adapter := range goMods(t) {
		directories = append(directories, "adapters/"+adapter)
		if adapter != "tests" {
			tags = append(tags, "adapters/"+adapter+"/v0.1.0")
		}
	}
	for _, directory := range directories {
		for _, commit := range []string{"v0.1.0", "main"} {
			if mod := r.run(nil, "git show "+commit+":"+directory+"/go.mod"); !strings.Contains(mod, module+" v0.1.0\n") {
				t.Errorf("%s of %s does not require the version:\n%s", directory, commit, mod)
			}
		}
	}
	slices.Sort(tags)
	if got := strings.Fields(r.run(nil, "git tag --points-at v0.1.0")); !slices.Equal(got, tags) {
		t.Errorf("tags %v, want %v", got, tags)
	}
}

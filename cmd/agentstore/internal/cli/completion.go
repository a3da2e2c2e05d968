package cli

import (
	"context"
	"fmt"
	"strings"

	urfave "github.com/urfave/cli/v3"
)

// completionFlag, as the last argument, requests the possible completions. The
// scripts below pass it the words before the cursor without evaluating them:
// pressing TAB does not run a $(command) on the line.
const completionFlag = "--generate-shell-completion"

var completionScripts = map[string]string{
	"bash": `_agentstore() {
    local line candidates=""
    while IFS= read -r line; do
        candidates+="${line%%:*}"$'\n'
    done < <("${COMP_WORDS[0]}" "${COMP_WORDS[@]:1:COMP_CWORD-1}" ` + completionFlag + ` 2>/dev/null)
    local IFS=$'\n'
    COMPREPLY=($(compgen -W "$candidates" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _agentstore agentstore
`,
	"zsh": `#compdef agentstore
_agentstore() {
    local -a candidates
    candidates=("${(@f)$("${words[1]}" "${(@)words[2,CURRENT-1]}" ` + completionFlag + ` 2>/dev/null)}")
    if [[ -n "${candidates[1]}" ]]; then
        _describe agentstore candidates
    else
        _files
    fi
}
compdef _agentstore agentstore
`,
	"fish": `function __agentstore_complete
    set -l words (commandline -opc)
    $words[1] $words[2..-1] ` + completionFlag + ` 2>/dev/null | string replace : \t
end
complete -c agentstore -f -n 'test -n "$(__agentstore_complete)"' -a '(__agentstore_complete)'
`,
}

const completionHelp = `To load it in every shell:
  bash  echo 'source <(agentstore completion bash)' >> ~/.bashrc
  zsh   echo 'source <(agentstore completion zsh)' >> ~/.zshrc    (after compinit)
  fish  agentstore completion fish > ~/.config/fish/completions/agentstore.fish
`

// configureCompletion replaces the library's completion command.
func configureCompletion(world invocation) urfave.ConfigureShellCompletionCommand {
	return func(command *urfave.Command) {
		var shells []leaf
		for _, shell := range []string{"bash", "zsh", "fish"} {
			shells = append(shells, leaf{
				name: shell, summary: "print the script for " + shell, more: completionHelp,
				run: func(_ context.Context, invocation invocation) error {
					_, err := fmt.Fprint(invocation.stdout, completionScripts[shell])
					return err
				},
			})
		}
		*command = *group("completion", "print a script that completes commands and flags in a shell", completionHelp, leaves(world, shells...)...)
	}
}

// complete prints the possible completions: commands and flags, or the values of
// the flag before the cursor. A colon separates a word from its description.
func complete(_ context.Context, command *urfave.Command) {
	out, given, last := command.Root().Writer, command.Args().Slice(), ""
	if len(given) > 0 {
		last = given[len(given)-1]
	}
	for _, flag := range command.Flags {
		if name := flag.Names()[0]; !documented(flag).TakesValue() || last != "-"+name && last != "--"+name {
			continue
		}
		if choice, ok := flag.(*choiceFlag); ok {
			fmt.Fprintln(out, strings.Join(choice.values, "\n"))
		}
		return
	}
	for _, below := range command.Commands {
		fmt.Fprintf(out, "%s:%s\n", below.Name, below.Usage)
	}
	if len(given) == 0 && strings.Trim(command.ArgsUsage, "[]") == "FILE" {
		return // the shell completes file names
	}
	for _, flag := range command.Flags {
		fmt.Fprintf(out, "--%s:%s\n", flag.Names()[0], strings.ReplaceAll(documented(flag).GetUsage(), "`", ""))
	}
}

// documented returns a flag with the methods that help needs: all flags of the
// library have them.
func documented(flag urfave.Flag) urfave.DocGenerationFlag { return flag.(urfave.DocGenerationFlag) }

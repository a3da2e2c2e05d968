package cli

import (
	"context"
	"fmt"
	"strings"

	urfave "github.com/urfave/cli/v3"
)

// completionFlag, as the last argument, asks for what could stand there. The
// scripts below give it the words before the cursor, and nothing of what those
// say is evaluated: a $(command) on the line is not run for a press of TAB.
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

const completionHelp = `To have it in every shell:
  bash  echo 'source <(agentstore completion bash)' >> ~/.bashrc
  zsh   echo 'source <(agentstore completion zsh)' >> ~/.zshrc    (below compinit)
  fish  agentstore completion fish > ~/.config/fish/completions/agentstore.fish
`

// configureCompletion makes of the library's completion command ours.
func configureCompletion(world invocation) urfave.ConfigureShellCompletionCommand {
	return func(command *urfave.Command) {
		var shells []*urfave.Command
		for _, shell := range []string{"bash", "zsh", "fish"} {
			shells = append(shells, leaf{
				name: shell, summary: "print the script for " + shell, more: completionHelp,
				run: func(_ context.Context, invocation invocation) error {
					_, err := fmt.Fprint(invocation.stdout, completionScripts[shell])
					return err
				},
			}.command(world))
		}
		*command = *group("completion", "print a script that completes commands and flags in a shell", completionHelp, shells...)
	}
}

// complete prints what may follow: commands and flags, or the values of the flag
// that stands last. A colon ends the word, and what it means comes behind.
func complete(_ context.Context, command *urfave.Command) {
	given := command.Args().Slice()
	if len(given) > 0 {
		if flag := flagNamed(command, given[len(given)-1]); flag != nil && takesValue(flag) {
			if choice, ok := flag.(*choiceFlag); ok {
				for _, value := range choice.values {
					fmt.Fprintln(command.Root().Writer, value)
				}
			}
			return
		}
	}
	for _, below := range command.Commands {
		fmt.Fprintf(command.Root().Writer, "%s:%s\n", below.Name, below.Usage)
	}
	if command.ArgsUsage != "" && len(given) == 0 && len(command.Commands) == 0 && takesFile(command) {
		return // the shell offers files
	}
	for _, flag := range command.Flags {
		usage := ""
		if described, ok := flag.(urfave.DocGenerationFlag); ok {
			usage = strings.ReplaceAll(described.GetUsage(), "`", "")
		}
		fmt.Fprintf(command.Root().Writer, "--%s:%s\n", flag.Names()[0], usage)
	}
}

func flagNamed(command *urfave.Command, word string) urfave.Flag {
	for _, flag := range command.Flags {
		if word == "--"+flag.Names()[0] || word == "-"+flag.Names()[0] {
			return flag
		}
	}
	return nil
}

func takesValue(flag urfave.Flag) bool {
	described, ok := flag.(urfave.DocGenerationFlag)
	return ok && described.TakesValue()
}

func takesFile(command *urfave.Command) bool {
	return command.ArgsUsage == "FILE" || command.ArgsUsage == "[FILE]"
}

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/erase"
)

func eraseCommand(world invocation) *urfave.Command {
	return group("erase", "erase a person's data", "", eraseSubject(world), eraseReplay(world))
}

func eraseFlags(request *erase.Request) []urfave.Flag {
	return []urfave.Flag{
		parsedFlag(&request.Key, "key-file", "the `file` with the key of receipts, of at least 16 bytes; required", readKey),
		stringFlag(&request.Reason, "reason", "the `reason`, for the audit trail; it must not name the person"),
		stringFlag(&request.RequestedBy, "requested-by", "the `name` of the person or office that asks, for the audit trail"),
	}
}

func readKey(file string) ([]byte, error) {
	key, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf(": %w", err)
	}
	return key, nil
}

func eraseSubject(world invocation) *urfave.Command {
	var request erase.Request
	return leaf{
		name: "subject", summary: "erase a person, and print the receipt as JSON",
		flags: append(eraseFlags(&request),
			stringFlag(&request.Owner, "owner", "the `owner` of the sessions; required"),
			eachFlag(&request.Namespaces, "namespace", "only sessions in this `namespace` (otherwise: in all)"),
			eachFlag(&request.Scopes, "scope", "the `name` of a shared scope of state that is the person's"),
			eachFlag(&request.Actors, "actor", "another `name` of the person, as an actor")),
		more: `A legal hold makes it fail before anything is removed. Keep receipts and the key apart
from backups. docs/privacy.md lists what stays.

Examples:
  agentstore erase subject --owner user-4711 --key-file erase.key >> receipts.jsonl`,
		onStore: func(ctx context.Context, invocation invocation, store *agentstore.Store) error {
			receipt, err := erase.Subject(ctx, store, request)
			if err != nil {
				return invalidUsage(err)
			}
			return json.NewEncoder(invocation.stdout).Encode(receipt)
		},
	}.command(world)
}

func eraseReplay(world invocation) *urfave.Command {
	var request erase.Request
	return leaf{
		name: "replay", summary: "erase the people of receipts again, after a restore of an older backup",
		arguments: []string{"FILE"},
		flags:     eraseFlags(&request),
		more: `FILE has the receipts of erase subject. The command compares them with the owners of all
sessions.

Examples:
  agentstore erase replay --key-file erase.key receipts.jsonl`,
		onStore: func(ctx context.Context, invocation invocation, store *agentstore.Store) error {
			file, err := os.Open(invocation.args[0])
			if err != nil {
				return err
			}
			defer func() { _ = file.Close() }()
			var receipts []erase.Receipt
			for decoder := json.NewDecoder(file); ; {
				var receipt erase.Receipt
				err := decoder.Decode(&receipt)
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					return err
				}
				receipts = append(receipts, receipt)
			}
			done, err := erase.Replay(ctx, store, request, receipts...)
			for _, receipt := range done {
				err = errors.Join(err, json.NewEncoder(invocation.stdout).Encode(receipt))
			}
			return invalidUsage(err)
		},
	}.command(world)
}

package windowtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-df90f812/agentstore/repo"
)

// block is a part of a request as a provider sees it.
type block struct {
	role string // system, user, assistant or tool
	kind string // text, reasoning, call or result
	id   string // of the call, or of the reasoning
	// needs is the reasoning with which the provider has made a text or a call. signed: it is the call that carries the signature
	// of those made together.
	needs  string
	signed bool
}

// blocksOf takes a prompt apart as a caller does that sends it: the transcripts of these tests have in the payload what the
// provider has to get. A user's message that has nothing is sent with a word for that, and an assistant's is not sent, as providers
// refuse empty texts.
func blocksOf(prompt []repo.Message) (blocks []block) {
	for _, m := range prompt {
		role := string(m.Role)
		if m.Role == repo.RoleDeveloper {
			role = "system"
		}
		needs, is := "", false
		for field := range strings.FieldsSeq(string(m.Payload)) {
			name, id, _ := strings.Cut(field, ":")
			switch name {
			case "needs":
				needs = id
			case "result":
				is = true
			case "reasoning":
				is = true
				blocks = append(blocks, block{role: role, kind: name, id: id})
			case "picture":
				is = true
				blocks = append(blocks, block{role: role, kind: "text"})
			}
		}
		if !is && m.Role != repo.RoleTool && (m.Content != "" || m.Role == repo.RoleUser) {
			blocks = append(blocks, block{role: role, kind: "text", needs: needs})
		}
		for field := range strings.FieldsSeq(string(m.Payload)) {
			switch name, id, _ := strings.Cut(field, ":"); name {
			case "call", "signed":
				blocks = append(blocks, block{role: role, kind: "call", id: id, needs: needs, signed: name == "signed"})
			case "result":
				blocks = append(blocks, block{role: "tool", kind: "result", id: id})
			}
		}
		if m.Role == repo.RoleTool && !is {
			blocks = append(blocks, block{role: "tool", kind: "result"})
		}
	}
	return blocks
}

// Chat Completions of OpenAI. A message of the assistant has its text and its calls together, so what the assistant says in a row is
// one message; reasoning is not sent. It refuses, with these words:
//
//   - "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'"
//     (github.com/BerriAI/litellm/issues/10083, github.com/agno-agi/agno/issues/3105);
//   - "messages with role 'tool' must be a response to a preceding message with 'tool_calls'" (github.com/google/adk-java/pull/682);
//   - an id that is there twice in a message, and a second response to one.
//
// It takes any first message, several of a role in a row, and empty contents.
func refusedByChat(blocks []block) string {
	var waiting []string
	results := false
	for i, b := range blocks {
		if b.kind == "reasoning" {
			continue
		}
		if b.role != "assistant" && b.kind != "result" && len(waiting) > 0 || b.role == "assistant" && results && len(waiting) > 0 {
			return fmt.Sprintf("%d: no response to %s", i, waiting)
		}
		switch at := slices.Index(waiting, b.id); b.kind {
		case "call":
			if at >= 0 {
				return fmt.Sprintf("%d: %s is called twice in a message", i, b.id)
			}
			waiting = append(waiting, b.id)
		case "result":
			if at < 0 {
				return fmt.Sprintf("%d: a response to no call, %s", i, b.id)
			}
			waiting, results = slices.Delete(waiting, at, at+1), true
			continue
		}
		results = false
	}
	return "" // what waits at the end is under way, and is sent when it has its results
}

// Responses of OpenAI. Everything is an item of its own. It refuses, with these words:
//
//   - "Item 'rs_…' of type 'reasoning' was provided without its required following item" (github.com/vercel/ai/issues/7099);
//   - "Item 'msg_…' was provided without its required 'reasoning' item", also if others were put in between
//     (github.com/continuedev/continue/issues/11994), and likewise a function_call (github.com/0xPlaygrounds/rig/issues/751);
//   - "No tool call found for function call output" (github.com/leookun/cursor-byok/issues/307), and "No tool output found for
//     function call" (github.com/Azure/azure-sdk-for-python/issues/46092).
func refusedByResponses(blocks []block) string {
	waiting := map[string]bool{}
	run := "" // the reasoning of what the assistant does
	for i, b := range blocks {
		if b.kind == "reasoning" && (i+1 == len(blocks) || blocks[i+1].role != "assistant") {
			return fmt.Sprintf("%d: reasoning %s without its following item", i, b.id)
		}
		switch {
		case b.role != "assistant":
			run = ""
		case b.kind == "reasoning":
			run = b.id
		case b.needs != "" && b.needs != run:
			return fmt.Sprintf("%d: a %s without its reasoning %s", i, b.kind, b.needs)
		}
		switch b.kind {
		case "call":
			if waiting[b.id] {
				return fmt.Sprintf("%d: no output for %s", i, b.id)
			}
			waiting[b.id] = true
		case "result":
			if !waiting[b.id] {
				return fmt.Sprintf("%d: no call for the output %s", i, b.id)
			}
			delete(waiting, b.id)
		}
	}
	for i := len(blocks) - 1; i >= 0 && len(waiting) > 0 && (blocks[i].role == "assistant" || blocks[i].kind == "result"); i-- {
		if blocks[i].kind == "call" {
			delete(waiting, blocks[i].id) // it is under way
		}
	}
	if len(waiting) > 0 {
		return fmt.Sprintf("no output for %v", waiting)
	}
	return ""
}

// turn is what one side says in a row.
type turn struct {
	role   string // user or model
	blocks []block
}

// turnsOf has results said by the user, and instructions and the summary put aside, as these are a parameter of their own. Since
// a conversation begins with the user, a caller puts a message of the user's before what does not. Results come before
// the user's text, or with apart in a turn of their own.
func turnsOf(blocks []block, apart bool) (turns []turn) {
	for _, b := range blocks {
		role := "user"
		switch b.role {
		case "system":
			continue
		case "assistant":
			role = "model"
		}
		last := len(turns) - 1
		if len(turns) == 0 && role != "user" || len(turns) == 0 && b.kind == "result" {
			turns, last = []turn{{role: "user", blocks: []block{{role: "user", kind: "text"}}}}, 0
		}
		if last < 0 || turns[last].role != role || apart && (turns[last].blocks[0].kind == "result") != (b.kind == "result") {
			turns, last = append(turns, turn{role: role}), last+1
		}
		turns[last].blocks = append(turns[last].blocks, b)
	}
	return turns
}

// Messages of Anthropic, with thinking. It refuses, with these words:
//
//   - "`tool_use` ids were found without `tool_result` blocks immediately after … in the next message"
//     (github.com/anthropics/claude-code/issues/2697);
//   - "unexpected `tool_use_id` found in `tool_result` blocks … in the previous message" (github.com/tghamm/Anthropic.SDK/issues/184),
//     "each tool_use must have a single result", and "`tool_use` ids must be unique";
//   - "Expected `thinking` or `redacted_thinking`, but found …. When `thinking` is enabled, a final `assistant` message must start with a
//     thinking block" (github.com/BerriAI/litellm/issues/9020); the blocks must be as they were made;
//   - "The final block in an assistant message cannot be `thinking`";
//   - "first message must use the "user" role" (github.com/lobehub/lobehub/issues/1601), and "text content blocks must be non-empty"
//     (github.com/anthropics/claude-code/issues/59812): see turnsOf and blocksOf.
//
// What one side says in a row is taken together, and need not alternate. thinks says that each turn of the assistant began with
// thinking.
func refusedByMessages(blocks []block, thinks bool) string {
	var waiting []string
	turns := turnsOf(blocks, false)
	for i, t := range turns {
		text := false
		run := ""
		if thinks && t.role == "model" && t.blocks[0].kind != "reasoning" {
			return fmt.Sprintf("turn %d: found %s, and not thinking", i, t.blocks[0].kind)
		}
		if t.role == "model" && t.blocks[len(t.blocks)-1].kind == "reasoning" {
			return fmt.Sprintf("turn %d: the final block is thinking", i)
		}
		for _, b := range t.blocks {
			at := slices.Index(waiting, b.id)
			switch b.kind {
			case "text":
				text = true
			case "reasoning":
				run = b.id
			case "call":
				if at >= 0 {
					return fmt.Sprintf("turn %d: %s is not unique", i, b.id)
				}
				waiting = append(waiting, b.id)
			case "result":
				if at < 0 || text {
					return fmt.Sprintf("turn %d: an unexpected result of %s", i, b.id)
				}
				waiting = slices.Delete(waiting, at, at+1)
			}
			if b.needs != "" && b.needs != run {
				return fmt.Sprintf("turn %d: a %s without its thinking %s", i, b.kind, b.needs)
			}
		}
		if t.role == "user" && len(waiting) > 0 && (i+1 < len(turns) || text) {
			return fmt.Sprintf("turn %d: no result of %s", i, waiting)
		}
	}
	return ""
}

// Gemini. It refuses, with these words:
//
//   - "Please ensure that function call turn comes immediately after a user turn or after a function response turn"
//     (github.com/google-gemini/gemini-cli/issues/26486), and "that function response turn comes immediately after a function call
//     turn" (github.com/GoogleCloudPlatform/generative-ai/pull/368);
//   - "that the number of function response parts is equal to the number of function call parts of the function call turn"
//     (github.com/google-gemini/gemini-cli/issues/3814), and responses beside a text (github.com/envoyproxy/ai-gateway/pull/2686);
//   - "Function call is missing a thought_signature" for the first call of those made together, of what came since the user's last
//     text (ai.google.dev/gemini-api/docs/thought-signatures).
//
// Contents without parts, and two turns of the model in a row, do not come out of turnsOf.
func refusedByGemini(blocks []block) string {
	turns := turnsOf(blocks, true)
	current := 0
	for i, t := range turns {
		if t.role == "user" && t.blocks[0].kind == "text" {
			current = i
		}
	}
	var calls []string
	for i, t := range turns {
		responds := t.role == "user" && t.blocks[0].kind == "result"
		if len(calls) > 0 && !responds {
			return fmt.Sprintf("turn %d: no responses to %s", i, calls)
		}
		if responds {
			if len(t.blocks) != len(calls) && (i+1 < len(turns) || len(t.blocks) > len(calls)) {
				return fmt.Sprintf("turn %d: %d responses to %d calls", i, len(t.blocks), len(calls))
			}
			for _, b := range t.blocks {
				if !slices.Contains(calls, b.id) {
					return fmt.Sprintf("turn %d: a response to no call, %s", i, b.id)
				}
			}
		}
		calls = nil
		for _, b := range t.blocks {
			if b.kind == "call" {
				if len(calls) == 0 && !b.signed && i > current {
					return fmt.Sprintf("turn %d: %s has no signature", i, b.id)
				}
				calls = append(calls, b.id)
			}
		}
	}
	return ""
}

// Google's ADK makes its requests from events. It fails for a response whose call is in no event before it: "no function call event
// found for function responses ids" (github.com/google/adk-go/issues/760).
func refusedByADK(blocks []block) string {
	called := map[string]bool{}
	for i, b := range blocks {
		switch b.kind {
		case "call":
			called[b.id] = true
		case "result":
			if !called[b.id] {
				return fmt.Sprintf("%d: no call event for %s", i, b.id)
			}
		}
	}
	return ""
}

// refused returns which provider would refuse a prompt, and why. Empty: none would.
func refused(prompt []repo.Message, thinks bool) string {
	blocks := blocksOf(prompt)
	for name, why := range map[string]string{
		"Chat Completions": refusedByChat(blocks), "Responses": refusedByResponses(blocks), "Messages": refusedByMessages(blocks, thinks),
		"Gemini": refusedByGemini(blocks), "ADK": refusedByADK(blocks),
	} {
		if why != "" {
			return name + ": " + why
		}
	}
	return ""
}

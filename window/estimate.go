package window

import "github.com/seed-df90f812/agentstore/repo"

// Estimate estimates how many tokens a message has in a prompt: as many as it was counted to have when it was appended
// ([repo.Message].Tokens), or else two for each seven bytes of its content, metadata and payload, and four. It takes no
// time that grows with the message. ReadSessions.Tokens counts the same way. A picture or a file in a payload is no
// text, and has far fewer tokens: give its message Tokens, or Options an Estimate.
//
// With the vocabularies cl100k and o200k the estimate of English prose is between 11 % and 35 % too high, of Go and
// Python between 9 % too low and 23 % too high, of German, French and Russian between 7 % too low and 53 % too high,
// and of Chinese, Japanese and Korean between 17 % too low and 14 % too high. Give a counter of the model's own where
// that matters.
func Estimate(m repo.Message) int64 {
	if m.Tokens > 0 {
		return m.Tokens
	}
	return (int64(len(m.Content)+len(m.Metadata)+len(m.Payload))*2+6)/7 + 4
}

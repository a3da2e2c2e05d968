package bench

import (
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// large are texts of 100 kB: words, of which some are frequent, and hexadecimal digits of noise.
func large(chance *rand.Rand) map[string]string {
	const size = 100_000
	noise := make([]byte, size/2)
	for i := range noise {
		noise[i] = byte(chance.Uint32())
	}
	words := make([]string, 3000)
	for i := range words {
		word := make([]byte, 2+chance.IntN(8))
		for j := range word {
			word[j] = "etaoinshrdlucmfw"[min(chance.IntN(16), chance.IntN(16))]
		}
		words[i] = string(word)
	}
	var text strings.Builder
	for text.Len() < size {
		text.WriteString(words[min(chance.IntN(len(words)), chance.IntN(len(words)), chance.IntN(len(words)))] + " ")
	}
	return map[string]string{"words": text.String()[:size], "digits": hex.EncodeToString(noise)}
}

// Appends of large texts, compressed by what the schema asks for where the server has it, and by what PostgreSQL does otherwise, beside
// a bare INSERT in each.
func BenchmarkCompression(b *testing.B) {
	texts := large(rand.New(rand.NewPCG(1, 2)))
	for _, name := range []string{"words", "digits"} {
		for _, method := range []string{"lz4", "pglz"} {
			store := pgtest.NewStore(b, agentstore.Options{})
			pgtest.Exec(b, store.Pool(), "ALTER TABLE messages ALTER content SET COMPRESSION "+method)
			pgtest.Exec(b, store.Pool(), "CREATE TABLE bare (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, content text COMPRESSION "+method+")")
			ids := newSessions(b, store, 64)
			b.Run(name+"/"+method+"/append", func(b *testing.B) {
				together(b, 16, func(i int) error {
					_, err := store.Sessions().Append(b.Context(), ids[i%len(ids)], repo.NewMessage{Role: repo.RoleTool, Content: texts[name]})
					return err
				})
			})
			b.Run(name+"/"+method+"/insert", func(b *testing.B) {
				together(b, 16, func(int) error {
					_, err := store.Pool().Exec(b.Context(), "INSERT INTO bare (content) VALUES ($1)", texts[name])
					return err
				})
			})
		}
	}
}

package follow

import (
	"encoding/base64"
	"strconv"
	"strings"
)

// Subject names a log for other processes: a kind of logs, and a key. A kind is a letter.
type Subject struct {
	Kind byte
	Key  [16]byte
}

// maxPayload is the size of the largest payload: PostgreSQL takes less than 8000 bytes.
const maxPayload = 7999

// keyLength is the length of a key in a payload.
const keyLength = 22

var encoding = base64.RawURLEncoding

// encode returns payloads that contain news: for each the kind, the key, and one more
// than its next sequence to the base of 36, separated by commas.
func encode(news map[Subject]int64) (payloads []string) {
	var payload []byte
	for subject, next := range news {
		var entry [1 + keyLength + 16]byte
		b := append(entry[:0], subject.Kind)
		b = encoding.AppendEncode(b, subject.Key[:])
		b = strconv.AppendInt(b, next+1, 36)
		if len(payload)+1+len(b) > maxPayload {
			payloads = append(payloads, string(payload))
			payload = payload[:0]
		}
		if len(payload) > 0 {
			payload = append(payload, ',')
		}
		payload = append(payload, b...)
	}
	if len(payload) > 0 {
		payloads = append(payloads, string(payload))
	}
	return payloads
}

// Decode returns the news of a payload. It leaves out what it does not understand:
// each login of the database can send a payload.
func Decode(payload string) (news []News[Subject]) {
	for entry := range strings.SplitSeq(payload, ",") {
		if len(entry) <= 1+keyLength {
			continue
		}
		one := News[Subject]{Key: Subject{Kind: entry[0]}}
		if n, err := encoding.Decode(one.Key.Key[:], []byte(entry[1:1+keyLength])); err != nil || n != len(one.Key.Key) {
			continue
		}
		next, err := strconv.ParseInt(entry[1+keyLength:], 36, 64)
		if err != nil || next < 0 {
			continue
		}
		one.Next = next - 1
		news = append(news, one)
	}
	return news
}

package dueq

// Reading what a lease request brings. encoding/json takes most of the time that a worker with short handlers spends, so this
// reads the one shape that it gets all the time, with neither reflection nor copies. Whatever it does not know it leaves to
// encoding/json, whose verdict counts.

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
)

type leaseAnswer struct {
	Messages []LeasedMessage `json:"messages"`
	Acks     []outcome       `json:"acks"`
}

// parseLease reads an answer, and keeps the body: payloads and strings are parts of it.
func parseLease(body []byte) (*leaseAnswer, error) {
	s := &scanner{data: body, text: string(body)}
	answer := &leaseAnswer{}
	s.object(func(name string) {
		switch name {
		case "messages":
			s.array(func() {
				answer.Messages = append(answer.Messages, LeasedMessage{})
				s.message(&answer.Messages[len(answer.Messages)-1])
			})
		case "acks":
			s.array(func() {
				answer.Acks = append(answer.Acks, outcome{})
				s.outcome(&answer.Acks[len(answer.Acks)-1])
			})
		default:
			s.skip()
		}
	})
	if !s.failed && s.peek() == 0 {
		return answer, nil
	}
	answer = &leaseAnswer{}
	return answer, json.Unmarshal(body, answer)
}

func (s *scanner) message(m *LeasedMessage) {
	s.object(func(name string) {
		switch name {
		case "id":
			m.ID = s.string()
		case "topic":
			m.Topic = s.string()
		case "payload":
			m.Payload = s.value()
		case "payload_base64":
			m.PayloadBase64 = s.optional()
		case "content_type":
			m.ContentType = s.optional()
		case "headers":
			m.Headers = map[string]string{}
			s.object(func(header string) { m.Headers[header] = s.string() })
		case "key":
			m.Key = s.optional()
		case "priority":
			integer(s, &m.Priority)
		case "attempt":
			integer(s, &m.Attempt)
		case "attempts_left":
			integer(s, &m.AttemptsLeft)
		case "published_at":
			m.PublishedAt = s.instant()
		case "due_at":
			m.DueAt = s.instant()
		case "lease_token":
			m.LeaseToken = s.string()
		case "lease_ms":
			integer(s, &m.LeaseMs)
		case "lease_expires_at":
			m.LeaseExpiresAt = s.instant()
		default:
			s.skip()
		}
	})
}

func (s *scanner) outcome(o *outcome) {
	s.object(func(name string) {
		switch name {
		case "id":
			o.ID = s.string()
		case "status":
			o.Status = s.string()
		default:
			s.skip()
		}
	})
}

// scanner goes through JSON once, and gives up (failed) at whatever it does not expect.
type scanner struct {
	data   []byte
	text   string // the same
	at     int
	failed bool
}

// peek is the next byte that is not white space, or 0 at the end.
func (s *scanner) peek() byte {
	for ; s.at < len(s.data); s.at++ {
		switch c := s.data[s.at]; c {
		case ' ', '\n', '\r', '\t':
		default:
			return c
		}
	}
	return 0
}

func (s *scanner) took(c byte) bool {
	if s.failed || s.peek() != c {
		return false
	}
	s.at++
	return true
}

func (s *scanner) expect(c byte) {
	if !s.took(c) {
		s.failed = true
	}
}

// object visits each member when it stands before its value, which the visit has to read.
func (s *scanner) object(visit func(name string)) {
	s.expect('{')
	if s.took('}') {
		return
	}
	for more := true; more && !s.failed; more = s.took(',') {
		name := s.string()
		s.expect(':')
		visit(name)
	}
	s.expect('}')
}

func (s *scanner) array(visit func()) {
	s.expect('[')
	if s.took(']') {
		return
	}
	for more := true; more && !s.failed; more = s.took(',') {
		visit()
	}
	s.expect(']')
}

func (s *scanner) string() string {
	if s.failed || s.peek() != '"' {
		s.failed = true
		return ""
	}
	start := s.at
	if end := bytes.IndexByte(s.data[start+1:], '"'); end >= 0 {
		if text := s.text[start+1 : start+1+end]; strings.IndexByte(text, '\\') < 0 {
			s.at = start + end + 2
			return text
		}
	}
	var text string
	if s.skip(); s.failed || json.Unmarshal(s.data[start:s.at], &text) != nil {
		s.failed = true
	}
	return text
}

func (s *scanner) optional() *string {
	text := s.string()
	return &text
}

func (s *scanner) instant() time.Time {
	at, err := time.Parse(time.RFC3339, s.string())
	if err != nil {
		s.failed = true
	}
	return at
}

func integer[T int32 | int64](s *scanner, into *T) {
	negative := s.took('-')
	start := s.at
	number := int64(0)
	for ; s.at < len(s.data) && s.at-start < 18 && '0' <= s.data[s.at] && s.data[s.at] <= '9'; s.at++ {
		number = number*10 + int64(s.data[s.at]-'0')
	}
	if negative {
		number = -number
	}
	*into = T(number)
	// What follows has to be the end of the value: neither a fraction, nor more digits.
	if c := s.peek(); s.at == start || (c != ',' && c != '}') || int64(*into) != number {
		s.failed = true
	}
}

// value is the next value as it is spelled.
func (s *scanner) value() JSON {
	s.peek()
	start := s.at
	if s.skip(); s.failed {
		return nil
	}
	return s.data[start:s.at:s.at]
}

func (s *scanner) skip() {
	switch s.peek() {
	case '"':
		s.skipString()
	case '{', '[':
		for depth := 0; s.at < len(s.data); {
			switch s.data[s.at] {
			case '"':
				s.skipString()
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			s.at++
			if depth == 0 {
				return
			}
		}
		s.failed = true
	default:
		start := s.at
		for s.at < len(s.data) && !strings.ContainsRune(",]} \n\r\t", rune(s.data[s.at])) {
			s.at++
		}
		s.failed = s.failed || s.at == start
	}
}

func (s *scanner) skipString() {
	for s.at++; s.at < len(s.data); s.at++ {
		switch s.data[s.at] {
		case '\\':
			s.at++
		case '"':
			s.at++
			return
		}
	}
	s.at, s.failed = len(s.data), true
}

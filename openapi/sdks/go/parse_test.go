package dueq

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

const leasedMessage = `{"id":"01a1fd2d-54d0-8000-8001-000000100000","topic":"orders","payload":%s,"headers":{"a":"b","c":"\"ü\\"},` +
	`"key":"order/42","priority":255,"attempt":1,"attempts_left":9,"published_at":"2026-11-21T08:16:08.912Z",` +
	`"due_at":"2026-11-21T08:16:13.913+02:00","lease_token":"AAAAASz2TGkBof0taFsAxgPSExzBXbY","lease_ms":30000,` +
	`"lease_expires_at":"2026-11-21T08:16:43.915Z","later":[{"}":"]"},-1.5e3,null]}`

func lease(payloads ...string) string {
	var messages []string
	for _, payload := range payloads {
		messages = append(messages, fmt.Sprintf(leasedMessage, payload))
	}
	return `{"messages":[` + strings.Join(messages, ",") + `],"acks":[{"id":"a","status":"ok"},{"id":"b","status":"lease_lost"}],"x":1}`
}

func TestItIsReadAsEncodingJSONReadsIt(t *testing.T) {
	answers := []string{
		lease(), lease("null"), lease(`{"a":[1e400,"\\\"",{}]}`, "false", `"\u00fc"`, "123456789012345678901234567890", `[]`, " 1 "),
		`{"messages":[],"acks":[]}`, ` { "acks" : [ ] , "messages" : [ ] } `, `{}`, `null`, `[]`, ``, `{"messages":`, `{"messages":[{"id":1}]}`,
		`{"messages":[{"lease_ms":1.5}]}`, `{"messages":[{"priority":99999999999}]}`, `{"messages":[{"key":null,"lease_ms":99999999999999999999}]}`,
		`{"messages":[{"due_at":"yesterday"}]}`, `{"messages":[]} tail`, strings.Replace(lease("1"), `"id"`, `"\u0069d"`, 1),
	}
	whole := lease(`{"deep":["\"}"]}`)
	for i := range whole {
		answers = append(answers, whole[:i])
	}
	for _, answer := range answers {
		got, err := parseLease([]byte(answer))
		want := &leaseAnswer{}
		wantErr := json.Unmarshal([]byte(answer), want)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%s: %v, but %v", answer, err, wantErr)
		}
		if err == nil && mustJSON(got) != mustJSON(want) {
			t.Fatalf("%s:\n%s\n%s", answer, mustJSON(got), mustJSON(want))
		}
		if err == nil && len(got.Messages) > 0 && !reflect.DeepEqual(got.Messages[0].Headers, want.Messages[0].Headers) {
			t.Fatalf("%v", got.Messages[0].Headers)
		}
	}
}

func mustJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return strings.ReplaceAll(string(text), "null", "[]") // an empty list may be nil
}

func BenchmarkParseLease(b *testing.B) {
	payloads := make([]string, 50)
	for i := range payloads {
		payloads[i] = `{"order": 42, "action": "close-if-unpaid"}`
	}
	body := []byte(lease(payloads...))
	b.Run("scanner", func(b *testing.B) {
		for i := 0; i < b.N; i++ {
			_, _ = parseLease(body)
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		for i := 0; i < b.N; i++ {
			_ = json.Unmarshal(body, &leaseAnswer{})
		}
	})
}

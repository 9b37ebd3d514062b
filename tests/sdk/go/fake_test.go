package main

// A server that does as a test tells it: what a real dueq cannot be brought to do at will.

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	dueq "dueq.dev/go"
)

type settled struct {
	ID      string `json:"id"`
	Token   string `json:"lease_token"`
	Reason  string `json:"reason"`
	DelayMs *int64 `json:"delay_ms"`
	Dead    bool   `json:"dead"`
	Release bool   `json:"release"`
}

type fake struct {
	*httptest.Server
	mu            sync.Mutex
	ready         []string // payloads to be leased
	next          int
	leaseMs       int
	attemptsLeft  int
	headers       map[string]string // of every message
	leasedFrom    string            // the last lease request's path, and the topics in its body
	acked, nacked []settled
	// Answers in place of the usual, by the last word of the path; true if it did.
	instead func(kind string, w http.ResponseWriter) bool
	// The status of each message in a batch's answer.
	status func(kind string, item settled) string
}

func newFake(t *testing.T, payloads ...string) *fake {
	f := &fake{ready: payloads, leaseMs: 30000, attemptsLeft: 9, headers: map[string]string{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Server.Close)
	return f
}

func (f *fake) client() *dueq.Client { return dueq.NewClient(f.URL) }

func (f *fake) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, _ := io.ReadAll(request.Body)
	w.Header().Set("Content-Type", "application/json")
	kind := request.URL.Path[strings.LastIndex(request.URL.Path, "/")+1:]
	if f.instead != nil && f.instead(kind, w) {
		return
	}
	var asked struct {
		Max      int       `json:"max_messages"`
		Topics   []string  `json:"topics"`
		Acks     []settled `json:"acks"`
		Messages []settled `json:"messages"`
	}
	if err := json.Unmarshal(body, &asked); err != nil {
		panic(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	results := []map[string]any{}
	for _, item := range append(asked.Acks, asked.Messages...) {
		status := "ok"
		if f.status != nil {
			status = f.status(kind, item)
		}
		results = append(results, map[string]any{"id": item.ID, "status": status, "lease_ms": f.leaseMs, "new": []int{1}})
		if kind == "nack" {
			f.nacked = append(f.nacked, item)
		} else if kind != "extend" {
			f.acked = append(f.acked, item)
		}
	}
	if kind != "lease" {
		_ = json.NewEncoder(w).Encode(map[string]any{"results": results})
		return
	}
	f.leasedFrom = request.URL.Path + " " + strings.Join(asked.Topics, " ")
	messages := []map[string]any{}
	for len(f.ready) > 0 && len(messages) < asked.Max {
		f.next++
		now := time.Now().UTC()
		messages = append(messages, map[string]any{
			"id": fmt.Sprintf("id-%d", f.next), "lease_token": fmt.Sprintf("token-%d", f.next), "topic": "t",
			"payload": json.RawMessage(f.ready[0]), "headers": f.headers, "priority": 0, "attempt": 1, "attempts_left": f.attemptsLeft,
			"published_at": now, "due_at": now, "lease_expires_at": now, "lease_ms": f.leaseMs, "mood": "new in this version",
		})
		f.ready = f.ready[1:]
	}
	if len(messages) == 0 {
		f.mu.Unlock()
		select { // a long poll, shortened
		case <-request.Context().Done():
		case <-time.After(300 * time.Millisecond):
		}
		f.mu.Lock()
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"messages": messages, "acks": results})
}

func (f *fake) settledSoFar() (acked, nacked []settled) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]settled{}, f.acked...), append([]settled{}, f.nacked...)
}

// until waits for what is to come true.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited for: %s", what)
		}
	}
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"type": "about:blank", "title": code, "status": status, "detail": "because",
		"code": code, "request_id": "r1", "errors": []map[string]string{{"field": "f", "reason": "bad"}}})
}

// Package dueqtest is a dueq in memory, for the tests of programs that use it: no Redis, and a clock that the test moves.
//
//	server := dueqtest.NewServer(t)
//	client := server.Client()
//	client.Publish(ctx, "orders", order, dueq.Delay(30*time.Minute), dueq.Key("order/42"))
//	server.Advance(30 * time.Minute)
//	dueq.NewWorker(client, "orders", handle, dueq.WithUntilEmpty()).Run(ctx) // handles it
//
// It publishes, leases, settles, finds, changes, deletes, lists and redrives messages as dueq does. Callbacks it does not make:
// they are messages in the topic `_callbacks`. Topics have no configuration (a lease lasts 30 s, a message has 10 attempts, the
// backoff is 1 s doubled each time), a message's own backoff and time to live are ignored, and there are no schedules. Requests
// for anything else are refused with the code not_supported (status 501).
package dueqtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	dueq "dueq.dev/go"
	"dueq.dev/go/api"
)

const (
	leaseMs     = 30_000
	maxAttempts = 10
	never       = time.Duration(1<<63 - 1)
)

// Server is a dueq in memory; made by [NewServer].
type Server struct {
	// URL is where it listens.
	URL string

	closing   chan struct{}
	mu        sync.Mutex
	changed   chan struct{}   // closed, and made anew, when messages or the clock change
	offset    time.Duration   // of its clock
	made      int             // ids and tokens
	known     map[string]bool // topics that were published to
	messages  []*message      // but those that are done, in the order of publishing
	answered  map[string]answer
	throttled map[string]interval // the latest, by topic and key
}

type message struct {
	api.Message
	token  string // of its lease
	until  time.Time
	failed int
	budget int64        // of attempts, used ones included
	holds  api.KeyUntil // how long it has its key
}

// answer is what an idempotency key was answered with. until is zero where it answers for good.
type answer struct {
	body    string
	message api.PublishedMessage
	until   time.Time
}

// interval is one of a throttle: its message is due at its beginning.
type interval struct {
	at, end time.Time
	message *message
}

// NewServer starts a server that ends with the test; with the program, if there is no test (nil), as in an Example function.
func NewServer(t testing.TB) *Server {
	s := &Server{closing: make(chan struct{}), changed: make(chan struct{}), known: map[string]bool{}, answered: map[string]answer{},
		throttled: map[string]interval{}}
	routes := http.NewServeMux()
	for route, handle := range map[string]func(*http.Request) (any, error){
		"POST /topics/{topic}/messages":       s.publish,
		"POST /callbacks":                     s.publish,
		"POST /topics/{topic}/messages/batch": s.publishBatch,
		"POST /topics/{topic}/lease":          s.lease,
		"POST /lease":                         s.lease,
		"POST /messages/{id}/{verb}":          s.settleOne,
		"POST /messages/{verb}":               s.settleBatch,
		"GET /messages/{id}":                  s.get,
		"GET /topics/{topic}/keys/{key}":      s.get,
		"PATCH /messages/{id}":                s.update,
		"PATCH /topics/{topic}/keys/{key}":    s.update,
		"DELETE /messages/{id}":               s.remove,
		"DELETE /topics/{topic}/keys/{key}":   s.remove,
		"GET /topics/{topic}/messages":        s.list,
		"GET /topics":                         s.topics,
		"POST /topics/{topic}/redrive":        s.redrive,
		"/":                                   notSupported,
	} {
		routes.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) {
			given, err := handle(r)
			reply(w, given, err)
		})
	}
	listening := httptest.NewServer(routes)
	if t != nil {
		t.Cleanup(func() {
			close(s.closing)
			listening.Close()
		})
	}
	s.URL = listening.URL
	return s
}

// Client makes a client of the server.
func (s *Server) Client(options ...dueq.ClientOption) *dueq.Client {
	return dueq.NewClient(s.URL, options...)
}

// Advance moves the server's clock: what falls due in the meantime is due, and leases that end in the meantime are over.
func (s *Server) Advance(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset += by
	s.wake()
}

// Messages are those in a topic, but for the ones that are done, in the order in which they were published.
func (s *Server) Messages(topic string) []api.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick()
	found := []api.Message{}
	for _, m := range s.messages {
		if m.Topic == topic {
			found = append(found, m.Message)
		}
	}
	return found
}

// refusal is a problem: its code, and what was wrong where the input was.
type refusal struct {
	code, detail string
	field        string
}

func (r refusal) Error() string { return r.code }

func refuse(code string) error { return refusal{code: code, detail: code} }

func invalid(field, reason string) error {
	return refusal{code: "invalid_input", detail: field + ": " + reason, field: field}
}

func notSupported(r *http.Request) (any, error) {
	return nil, refusal{code: "not_supported", detail: "dueqtest has no " + r.Method + " " + r.URL.EscapedPath()}
}

var statuses = map[string]int{"message_not_found": http.StatusNotFound, "topic_not_found": http.StatusNotFound,
	"invalid_topic_name": http.StatusBadRequest, "topic_reserved": http.StatusForbidden, "invalid_input": http.StatusUnprocessableEntity,
	"idempotency_key_reused": http.StatusUnprocessableEntity, "not_supported": http.StatusNotImplemented}

func reply(w http.ResponseWriter, given any, err error) {
	var said refusal
	switch {
	case errors.As(err, &said):
		status := statuses[said.code]
		if status == 0 {
			status = http.StatusConflict
		}
		problem := map[string]any{"type": "about:blank", "title": said.code, "status": status, "code": said.code,
			"detail": said.detail, "request_id": "dueqtest"}
		if said.field != "" {
			problem["errors"] = []api.FieldError{{Field: said.field, Reason: strings.TrimPrefix(said.detail, said.field+": ")}}
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		given = problem
	case given == nil:
		w.WriteHeader(http.StatusNoContent)
		return
	default:
		w.Header().Set("Content-Type", "application/json")
	}
	_ = json.NewEncoder(w).Encode(given)
}

// read decodes a body, which may be left out.
func read(r *http.Request, into any) error {
	if err := json.NewDecoder(r.Body).Decode(into); err != nil && err != io.EOF {
		return invalid("(body)", err.Error())
	}
	return nil
}

func (s *Server) now() time.Time { return time.Now().Add(s.offset).UTC().Truncate(time.Millisecond) }

// wake has long polls look again. The lock is held, as in all that follows but the handlers of requests.
func (s *Server) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// tick does what time does, and says when there is something to do next.
func (s *Server) tick() (next time.Duration) {
	now := s.now()
	next = never
	for _, m := range s.messages {
		if m.State == api.StateLeased && !m.until.After(now) {
			s.comeBack(m, m.until)
		}
		if m.State == api.StateDelayed && !m.DueAt.After(now) {
			m.State = api.StateReady
		}
		switch m.State {
		case api.StateLeased:
			next = min(next, m.until.Sub(now))
		case api.StateDelayed:
			next = min(next, m.DueAt.Sub(now))
		}
	}
	return next
}

// comeBack ends a lease without an ack.
func (s *Server) comeBack(m *message, due time.Time) {
	m.token, m.LeaseExpiresAt = "", nil
	if m.AttemptsLeft <= 0 {
		m.State, m.DueAt = api.StateDead, nil
		return
	}
	m.DueAt, m.State = &due, api.StateDelayed
	if !due.After(s.now()) {
		m.State = api.StateReady
	}
}

func (s *Server) id(kind string) string {
	s.made++
	return fmt.Sprintf("%s-%06d", kind, s.made)
}

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
	"regexp"
	"slices"
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

func (s *Server) publish(r *http.Request) (any, error) {
	var request struct {
		api.PublishRequest
		URL string `json:"url"`
	}
	if err := read(r, &request); err != nil {
		return nil, err
	}
	topic := r.PathValue("topic")
	if topic == "" {
		topic = "_callbacks"
		request.Callback.Set(api.NewCallbackRequest(request.URL))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.take(topic, &request.PublishRequest)
}

func (s *Server) publishBatch(r *http.Request) (any, error) {
	var batch api.PublishBatchRequest
	if err := read(r, &batch); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var answer api.PublishBatchResponse
	for i := range batch.Messages {
		result := api.PublishResult{Status: "ok"}
		published, err := s.take(r.PathValue("topic"), &batch.Messages[i])
		switch code := fmt.Sprint(err); {
		case err == nil:
			result.Message = published
		case statuses[code] != 0 && code != "idempotency_key_reused": // the whole batch is refused
			return nil, err
		default:
			result.Status = code
		}
		answer.Results = append(answer.Results, result)
	}
	return answer, nil
}

// take publishes.
func (s *Server) take(topic string, r *api.PublishRequest) (*api.PublishedMessage, error) {
	if err := check(topic, r); err != nil {
		return nil, err
	}
	s.tick()
	s.known[topic] = true
	now := s.now()
	once := r.GetIdempotencyKey()
	r.IdempotencyKey.Unset()
	debounce, throttle, policy := r.Debounce.Get(), r.Throttle.Get(), r.Once.Get()
	if debounce != nil {
		r.SetKey(debounce.Key)
		r.SetOnDuplicate(api.OnDuplicateReplace)
		r.SetKeyUntil(api.KeyUntilGranted)
		r.SetDelayMs(debounce.DelayMs)
	}
	body, _ := r.MarshalJSON()
	var until time.Time
	if policy != nil {
		once, body, until = "\x00"+policy.Key, nil, now.Add(time.Duration(policy.ForMs)*time.Millisecond)
	}
	before, ok := s.answered[topic+"\x00"+once]
	if ok && once != "" && (before.until.IsZero() || now.Before(before.until)) {
		if before.body != string(body) {
			return nil, refuse("idempotency_key_reused")
		}
		before.message.Duplicate = true
		return &before.message, nil
	}
	due := now.Add(time.Duration(r.GetDelayMs()) * time.Millisecond)
	if r.DeliverAt.IsSet() {
		due = r.GetDeliverAt()
	}
	m := s.live(topic, r.GetKey())
	if debounce != nil && debounce.HasMaxWaitMs() {
		first := now
		if m != nil {
			first = m.PublishedAt
		}
		if latest := first.Add(time.Duration(debounce.GetMaxWaitMs()) * time.Millisecond); latest.Before(due) {
			due = latest
		}
	}
	if throttle != nil {
		m, due = s.next(topic+"\x00"+throttle.Key, now)
	}
	duplicate := m != nil
	switch {
	case duplicate && r.GetOnDuplicate() == api.OnDuplicateReject:
		return nil, refuse("duplicate_key")
	case duplicate && r.GetOnDuplicate() == api.OnDuplicateReplace && m.State == api.StateLeased:
		return nil, refuse("message_leased")
	case !duplicate:
		m = &message{Message: api.Message{ID: s.id("message"), Topic: topic, Key: r.Key.Get(), PublishedAt: now}, holds: r.GetKeyUntil()}
		s.messages = append(s.messages, m)
	}
	if !duplicate || throttle != nil || r.GetOnDuplicate() == api.OnDuplicateReplace {
		m.Payload, m.PayloadBase64, m.ContentType = r.Payload, r.PayloadBase64.Get(), r.ContentType.Get()
		m.Headers, m.Priority, m.budget = r.Headers, r.GetPriority(), maxAttempts
		if r.MaxAttempts.IsSet() {
			m.budget = r.GetMaxAttempts()
		}
		if to := r.Callback.Get(); to != nil {
			m.Callback = api.NewCallback(to.URL)
		}
		m.AttemptsLeft, m.State, m.DueAt = m.budget-m.Attempts, api.StateDelayed, &due
		s.tick()
		s.wake()
	}
	published := api.PublishedMessage{ID: m.ID, Topic: topic, State: m.State, DueAt: m.DueAt, PublishedAt: m.PublishedAt, Duplicate: duplicate}
	if once != "" {
		s.answered[topic+"\x00"+once] = answer{string(body), published, until}
	}
	if throttle != nil {
		s.throttled[topic+"\x00"+throttle.Key] = interval{due, due.Add(time.Duration(throttle.EveryMs) * time.Millisecond), m}
	}
	return &published, nil
}

var topicName = regexp.MustCompile(`^\w[\w.-]{0,127}$`)

// check refuses what cannot be meant; more than this dueq refuses too.
func check(topic string, r *api.PublishRequest) error {
	called := r.Callback.Get() != nil
	switch {
	case !topicName.MatchString(topic) || strings.Contains(topic, ".."):
		return refuse("invalid_topic_name")
	case strings.HasPrefix(topic, "_") && !called:
		return refuse("topic_reserved")
	case r.Payload == nil && !r.PayloadBase64.IsSet() && !called:
		return invalid("payload", "is required, or payload_base64")
	case r.Payload != nil && r.PayloadBase64.IsSet():
		return invalid("payload_base64", "cannot be given together with payload")
	case r.DelayMs.IsSet() && r.DeliverAt.IsSet():
		return invalid("deliver_at", "cannot be given together with delay_ms")
	case r.GetDelayMs() < 0:
		return invalid("delay_ms", "must be at least 0")
	case r.GetPriority() < 0 || r.GetPriority() > 255:
		return invalid("priority", "must be 0 to 255")
	case r.Key.IsSet() && r.GetKey() == "":
		return invalid("key", "must be 1 to 255 characters")
	case called && topic == "_callbacks" && r.Callback.Get().GetURL() == "":
		return invalid("url", "must be a URL")
	case (r.HasDebounce() || r.HasThrottle() || r.HasOnce()) && (r.Key.IsSet() || r.HasIdempotencyKey()):
		return invalid("key", "cannot be given together with a policy for duplicates")
	case r.HasDebounce() && r.HasThrottle() || (r.HasDebounce() || r.HasThrottle()) && (r.HasOnce() || r.DelayMs.IsSet() || r.DeliverAt.IsSet()):
		return invalid("debounce", "cannot be given together with another policy or a due time")
	case r.OnDuplicate.IsSet() && !r.Key.IsSet():
		return invalid("on_duplicate", "can only be given with key")
	}
	return nil
}

// next is the message that waits for the end of the interval, if one does, and when the next interval begins.
func (s *Server) next(name string, now time.Time) (*message, time.Time) {
	last := s.throttled[name]
	switch {
	case !last.at.After(now) && last.end.After(now):
		return nil, last.end
	case !last.at.After(now):
		return nil, now
	case slices.Contains(s.messages, last.message) && (last.message.State == api.StateDelayed || last.message.State == api.StateReady):
		return last.message, last.at
	default:
		return nil, last.at
	}
}

// live finds the message that has a key.
func (s *Server) live(topic, key string) *message {
	for _, m := range s.messages {
		if key != "" && m.Topic == topic && m.GetKey() == key && m.State != api.StateDead && (m.Attempts == 0 || m.holds != api.KeyUntilGranted) {
			return m
		}
	}
	return nil
}

func (s *Server) lease(r *http.Request) (any, error) {
	var asked struct {
		api.LeaseRequest
		Topics []string `json:"topics"`
	}
	if err := read(r, &asked); err != nil {
		return nil, err
	}
	topics := asked.Topics
	if topic := r.PathValue("topic"); topic != "" {
		topics = []string{topic}
	}
	lease := time.Duration(leaseMs) * time.Millisecond
	if asked.LeaseMs.IsSet() {
		lease = time.Duration(asked.GetLeaseMs()) * time.Millisecond
	}
	end := time.Now().Add(time.Duration(asked.GetWaitMs()) * time.Millisecond)
	answer := api.LeaseResponse{Messages: []api.LeasedMessage{}, Acks: []api.AckOutcome{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ack := range asked.Acks {
		settled := s.settle("ack", &item{NackBatchItem: api.NackBatchItem{ID: ack.ID, LeaseToken: ack.LeaseToken}})
		answer.Acks = append(answer.Acks, api.AckOutcome{ID: ack.ID, Status: api.AckStatus(settled.Status)})
	}
	for {
		next := s.tick()
		answer.Messages = s.grant(topics, max(asked.GetMaxMessages(), 1), lease)
		left := time.Until(end)
		if len(answer.Messages) > 0 || left <= 0 {
			return answer, nil
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-time.After(min(left, max(next, time.Millisecond))):
		case <-r.Context().Done():
			end = time.Time{}
			topics = nil // nobody is there to take them
		case <-s.closing:
			end = time.Time{}
		}
		s.mu.Lock()
	}
}

// grant leases what is ready: of the first topic that has something, by priority, then due time.
func (s *Server) grant(topics []string, most int64, lease time.Duration) []api.LeasedMessage {
	granted := []api.LeasedMessage{}
	for _, topic := range topics {
		var ready []*message
		for _, m := range s.messages {
			if m.Topic == topic && m.State == api.StateReady {
				ready = append(ready, m)
			}
		}
		slices.SortStableFunc(ready, func(a, b *message) int {
			if a.Priority != b.Priority {
				return int(b.Priority - a.Priority)
			}
			return a.DueAt.Compare(*b.DueAt)
		})
		for _, m := range ready[:min(int64(len(ready)), most)] {
			m.State, m.until, m.token = api.StateLeased, s.now().Add(lease), s.id("lease")
			m.LeaseExpiresAt = &m.until
			m.Attempts++
			m.AttemptsLeft--
			headers := m.Headers
			if headers == nil {
				headers = map[string]string{}
			}
			granted = append(granted, api.LeasedMessage{ID: m.ID, Topic: m.Topic, Payload: m.Payload, PayloadBase64: m.PayloadBase64,
				ContentType: m.ContentType, Headers: headers, Key: m.Key, Priority: m.Priority, Attempt: m.Attempts,
				AttemptsLeft: m.AttemptsLeft, PublishedAt: m.PublishedAt, DueAt: *m.DueAt, LeaseToken: m.token,
				LeaseMs: lease.Milliseconds(), LeaseExpiresAt: m.until})
		}
		if len(granted) > 0 {
			break
		}
	}
	return granted
}

// item is an ack, a nack or an extension.
type item struct {
	api.NackBatchItem
	LeaseMs int64 `json:"lease_ms"`
}

type settled struct {
	ID             string     `json:"id"`
	Status         string     `json:"status"`
	State          api.State  `json:"state,omitempty"`
	Attempt        int64      `json:"attempt,omitempty"`
	DueAt          *time.Time `json:"due_at,omitempty"`
	LeaseMs        int64      `json:"lease_ms,omitempty"`
	LeaseExpiresAt *time.Time `json:"lease_expires_at,omitempty"`
}

func (s *Server) settle(verb string, i *item) settled {
	s.tick()
	at := slices.IndexFunc(s.messages, func(m *message) bool { return m.ID == i.ID })
	if at < 0 {
		return settled{ID: i.ID, Status: "message_not_found"}
	}
	m := s.messages[at]
	if m.State != api.StateLeased || m.token != i.LeaseToken {
		return settled{ID: i.ID, Status: "lease_lost"}
	}
	defer s.wake()
	switch verb {
	case "ack":
		s.messages = slices.Delete(s.messages, at, at+1)
		return settled{ID: i.ID, Status: "ok"}
	case "extend":
		now := s.now()
		if until := now.Add(time.Duration(i.LeaseMs) * time.Millisecond); until.After(m.until) {
			m.until = until
		}
		return settled{ID: i.ID, Status: "ok", LeaseMs: m.until.Sub(now).Milliseconds(), LeaseExpiresAt: &m.until}
	}
	if i.Reason.IsSet() {
		m.LastError = i.Reason.Get()
	}
	delay := time.Second << min(m.failed, 11)
	switch {
	case i.GetRelease():
		m.AttemptsLeft++
		delay = 0
	case i.GetDead():
		m.AttemptsLeft = 0
	default:
		m.failed++
	}
	if i.DelayMs.IsSet() {
		delay = time.Duration(i.GetDelayMs()) * time.Millisecond
	}
	s.comeBack(m, s.now().Add(delay))
	return settled{ID: i.ID, Status: "ok", State: m.State, Attempt: m.Attempts, DueAt: m.DueAt}
}

func (s *Server) settleOne(r *http.Request) (any, error) {
	var one item
	if err := read(r, &one); err != nil {
		return nil, err
	}
	verb := r.PathValue("verb")
	s.mu.Lock()
	defer s.mu.Unlock()
	switch verb {
	case "redrive":
		return s.redriveOne(r.PathValue("id"))
	case "ack", "nack", "extend":
	default:
		return notSupported(r)
	}
	one.ID = r.PathValue("id")
	result := s.settle(verb, &one)
	switch {
	case result.Status != "ok":
		return nil, refuse(result.Status)
	case verb == "ack":
		return nil, nil
	default:
		return result, nil
	}
}

func (s *Server) settleBatch(r *http.Request) (any, error) {
	var batch struct {
		Messages []*item `json:"messages"`
	}
	if err := read(r, &batch); err != nil {
		return nil, err
	}
	verb := r.PathValue("verb")
	if verb != "ack" && verb != "nack" && verb != "extend" {
		return notSupported(r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	results := []settled{}
	for _, one := range batch.Messages {
		results = append(results, s.settle(verb, one))
	}
	return map[string]any{"results": results}, nil
}

func (s *Server) has(topic string) error {
	if !s.known[topic] {
		return refuse("topic_not_found")
	}
	return nil
}

// find is the message that a path names, by id or by topic and key.
func (s *Server) find(r *http.Request) (*message, error) {
	s.tick()
	if key := r.PathValue("key"); key != "" {
		if err := s.has(r.PathValue("topic")); err != nil {
			return nil, err
		}
		if m := s.live(r.PathValue("topic"), key); m != nil {
			return m, nil
		}
	}
	for _, m := range s.messages {
		if m.ID == r.PathValue("id") {
			return m, nil
		}
	}
	return nil, refuse("message_not_found")
}

func (s *Server) get(r *http.Request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.find(r)
	if err != nil {
		return nil, err
	}
	return m.Message, nil
}

func (s *Server) update(r *http.Request) (any, error) {
	var change api.UpdateMessageRequest
	if err := read(r, &change); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.find(r)
	if err != nil {
		return nil, err
	}
	due := change.DeliverAt
	if change.DelayMs != nil {
		at := s.now().Add(time.Duration(*change.DelayMs) * time.Millisecond)
		due = &at
	}
	switch {
	case m.State == api.StateLeased:
		return nil, refuse("message_leased")
	case m.State == api.StateDead && due != nil:
		return nil, refuse("message_dead")
	case due != nil:
		m.State, m.DueAt = api.StateDelayed, due
	}
	if change.Priority != nil {
		m.Priority = *change.Priority
	}
	if change.Payload != nil {
		m.Payload, m.PayloadBase64, m.ContentType = change.Payload, nil, nil
	}
	if change.PayloadBase64 != nil {
		m.Payload, m.PayloadBase64, m.ContentType = nil, change.PayloadBase64, change.ContentType
	}
	if change.Headers != nil {
		m.Headers = change.Headers
	}
	s.tick()
	s.wake()
	return m.Message, nil
}

func (s *Server) remove(r *http.Request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.find(r)
	if err != nil {
		return nil, err
	}
	if m.State == api.StateLeased && r.FormValue("force") != "true" {
		return nil, refuse("message_leased")
	}
	s.messages = slices.DeleteFunc(s.messages, func(other *message) bool { return other == m })
	return nil, nil
}

func (s *Server) list(r *http.Request) (any, error) {
	topic := r.PathValue("topic")
	page := api.MessageList{Items: []api.Message{}}
	for _, m := range s.Messages(topic) {
		if string(m.State) == r.FormValue("state") {
			page.Items = append(page.Items, m)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return page, s.has(topic)
}

func (s *Server) topics(r *http.Request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick()
	counts := map[string]*api.TopicCounts{}
	for name := range s.known {
		counts[name] = &api.TopicCounts{}
	}
	for _, m := range s.messages {
		count := counts[m.Topic]
		switch m.State {
		case api.StateDelayed:
			count.Delayed++
		case api.StateReady:
			count.Ready++
		case api.StateLeased:
			count.Leased++
		case api.StateDead:
			count.Dead++
		}
	}
	list := api.TopicList{Items: []api.TopicItem{}}
	for name, count := range counts {
		if strings.HasPrefix(name, r.FormValue("prefix")) {
			list.Items = append(list.Items, api.TopicItem{Name: name, Counts: *count})
		}
	}
	slices.SortFunc(list.Items, func(a, b api.TopicItem) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

func (s *Server) redrive(r *http.Request) (any, error) {
	var asked api.RedriveRequest
	if err := read(r, &asked); err != nil {
		return nil, err
	}
	most := int64(10_000)
	if asked.MaxMessages.IsSet() {
		most = asked.GetMaxMessages()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick()
	if err := s.has(r.PathValue("topic")); err != nil {
		return nil, err
	}
	var answer api.RedriveResponse
	for _, m := range s.messages {
		if m.Topic != r.PathValue("topic") || m.State != api.StateDead {
			continue
		}
		if answer.Redriven == most {
			answer.Remaining++
		} else if _, err := s.redriveOne(m.ID); err != nil { // its key is taken
			answer.Remaining++
		} else {
			answer.Redriven++
		}
	}
	return answer, nil
}

func (s *Server) redriveOne(id string) (any, error) {
	at := slices.IndexFunc(s.messages, func(m *message) bool { return m.ID == id })
	if at < 0 {
		return nil, refuse("message_not_found")
	}
	m := s.messages[at]
	switch {
	case m.State != api.StateDead:
		return nil, refuse("message_not_dead")
	case s.live(m.Topic, m.GetKey()) != nil:
		return nil, refuse("duplicate_key")
	}
	now := s.now()
	m.State, m.DueAt, m.AttemptsLeft, m.failed = api.StateReady, &now, m.budget, 0
	s.wake()
	return m.Message, nil
}

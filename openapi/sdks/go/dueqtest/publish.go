package dueqtest

// What is published: its checks, its keys and policies, and the message that comes of it.

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"dueq.dev/go/api"
)

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

package dueqtest

// Leases and what ends them: acks, nacks and extensions.

import (
	"net/http"
	"slices"
	"time"

	"dueq.dev/go/api"
)

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
		return s.redriveOne(r.PathValue("id"), 0)
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

package dueqtest

// Messages and topics as they are read, changed, deleted and redriven.

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"dueq.dev/go/api"
)

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
	isDead := func(m *message) bool { return m.Topic == r.PathValue("topic") && m.State == api.StateDead }
	var dead int64
	for _, m := range s.messages {
		if isDead(m) {
			dead++
		}
	}
	most = min(most, dead)
	var answer api.RedriveResponse
	for _, m := range s.messages {
		if !isDead(m) {
			continue
		}
		after := time.Duration(asked.GetSpreadMs()*answer.Redriven/max(most, 1)) * time.Millisecond
		if answer.Redriven == most {
			answer.Remaining++
		} else if _, err := s.redriveOne(m.ID, after); err != nil { // its key is taken
			answer.Remaining++
		} else {
			answer.Redriven++
		}
	}
	return answer, nil
}

func (s *Server) redriveOne(id string, after time.Duration) (any, error) {
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
	due := s.now().Add(after)
	m.State, m.DueAt, m.AttemptsLeft, m.failed = api.StateReady, &due, m.budget, 0
	if after > 0 {
		m.State = api.StateDelayed
	}
	s.wake()
	return m.Message, nil
}

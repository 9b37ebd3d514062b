package dueq

// Keeping leases: whatever is held, running or waiting, is extended when a third of its lease has passed, so that two more
// attempts fit in before it is over.

import (
	"encoding/json"
	"slices"
	"time"
)

// leastExtend keeps extensions apart when little is left to extend to: dueq extends no lease beyond 12 h from its grant.
const leastExtend = 100 * time.Millisecond

// lookBy has the leases looked at by then. The lock is held.
func (r *run) lookBy(when time.Time) {
	if r.nextLook.IsZero() || when.Before(r.nextLook) {
		r.nextLook = when
		poke(r.wakeHeld)
	}
}

func (r *run) extendLoop() {
	for {
		due, lost, wait := r.look(time.Now())
		r.lost(lost...)
		for part := range slices.Chunk(due, batch) {
			go r.extend(part)
		}
		var timer <-chan time.Time
		if wait < never {
			timer = time.After(wait)
		}
		select {
		case <-timer:
		case <-r.wakeHeld:
		case <-r.draining:
			return
		}
	}
}

// look finds what has to be extended now (and what soon will, so that few requests carry many), drops what is over, and says
// when to look next.
func (r *run) look(now time.Time) (due []*held, lost []*LeasedMessage, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nextLook = time.Time{}
	for h := range r.held {
		if !now.Before(h.deadline) {
			r.lose(h)
			lost = append(lost, h.message)
			continue
		}
		if !h.extending && now.Add(h.lease/12).After(h.extendAt) {
			h.extending = true
			due = append(due, h)
		}
		next := h.deadline
		if !h.extending && h.extendAt.Before(next) {
			next = h.extendAt
		}
		if r.nextLook.IsZero() || next.Before(r.nextLook) {
			r.nextLook = next
		}
	}
	if r.nextLook.IsZero() {
		return due, lost, never
	}
	return due, lost, r.nextLook.Sub(now)
}

// lose tells a handler that its lease is lost, or drops a message before one began. The lock is held.
func (r *run) lose(h *held) {
	h.lost = true
	delete(r.held, h)
	if h.cancel != nil {
		h.cancel(ErrLeaseLost)
	} else if i := slices.Index(r.waiting, h); i >= 0 {
		r.waiting = slices.Delete(r.waiting, i, i+1)
		r.news = true
		r.room.Signal()
	}
}

func (r *run) extend(due []*held) {
	// Half of the time that is left, so that there is some for another attempt.
	left := settleTimeout
	for _, h := range due {
		left = min(left, time.Until(h.deadline)/2)
	}
	var answer struct {
		Results []outcome `json:"results"`
	}
	body, err := r.post(r.settles, max(left, 500*time.Millisecond), r.toExtend, extendBody(due))
	if err == nil {
		err = json.Unmarshal(body, &answer)
	}
	arrived := time.Now()

	var lost []*LeasedMessage
	r.mu.Lock()
	delay := backoff(r.extendFailures, err)
	if err != nil {
		r.extendFailures++
	} else {
		r.extendFailures = 0
	}
	for i, h := range due {
		h.extending = false
		if _, holds := r.held[h]; !holds { // handled, or given up, in the meantime
			continue
		}
		status, ms := "", int64(0)
		if i < len(answer.Results) && answer.Results[i].ID == h.message.ID {
			status, ms = answer.Results[i].Status, answer.Results[i].LeaseMs
		}
		switch {
		case status == "ok" && ms > 0:
			left := time.Duration(ms) * time.Millisecond
			h.deadline = arrived.Add(left)
			h.extendAt = arrived.Add(max(left/3, leastExtend))
		case status == "lease_lost" || status == "message_not_found":
			r.lose(h)
			lost = append(lost, h.message)
			continue
		default: // a short lease leaves no time for a long backoff
			h.extendAt = arrived.Add(max(min(delay, h.deadline.Sub(arrived)/4), leastExtend/4))
		}
		r.lookBy(h.extendAt)
	}
	r.mu.Unlock()
	r.lost(lost...)

	if err != nil && r.settles.Err() == nil {
		r.troubled(err)
		if hopeless(err) {
			r.fail(err)
		}
	}
}

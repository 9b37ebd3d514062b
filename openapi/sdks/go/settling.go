package dueq

// Telling the server what became of messages. Acks wait for the next lease request to ride on; when none comes within some
// milliseconds they, and nacks always, go in batches of their own. What a failed or unanswered request carried is sent again with
// the same token, which is safe, until its lease is over.

import (
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"time"
)

const (
	// How long acks and nacks are gathered.
	gather = 4 * time.Millisecond
	// How many one request takes.
	batch = 1000
	// What such a request may take before the connection counts as dead.
	settleTimeout = 10 * time.Second
)

var errUnsettled = errors.New("dueq: the server could not say what became of some messages; they are sent again")

// settlement is the end of a message: an ack, or a nack.
type settlement struct {
	message  *LeasedMessage
	deadline time.Time
	nack     *nack // nil: an ack
	repeated bool  // it was sent before, and may have been taken
}

type nack struct {
	reason  string
	delayed bool // delay counts, and not the topic's backoff
	delay   time.Duration
	dead    bool
	release bool
}

// pending are settlements to be sent, oldest first.
type pending struct {
	list  []settlement
	since time.Time // when the first came
}

// take removes as many as one request carries.
func (p *pending) take() []settlement {
	taken := p.list
	if len(taken) > batch {
		p.list = taken[batch:]
		return taken[:batch:batch]
	}
	p.list = nil
	return taken
}

// outcome is what a batch answers for one of its messages.
type outcome struct {
	ID      string `json:"id"`
	Status  string `json:"status"`
	LeaseMs int64  `json:"lease_ms"`
}

// pend has a settlement sent. The lock is held.
func (r *run) pend(to *pending, s settlement) {
	if len(to.list) == 0 {
		to.since = time.Now()
		poke(r.wakePend)
	}
	to.list = append(to.list, s)
}

// again has settlements sent once more, but for those whose lease is over: their messages are lost. The lock is held.
func (r *run) again(to *pending, failed []settlement, now time.Time) (lost []*LeasedMessage) {
	kept := failed[:0]
	for _, s := range failed {
		if s.deadline.After(now) {
			s.repeated = true
			kept = append(kept, s)
		} else {
			lost = append(lost, s.message)
		}
	}
	if len(kept) > 0 {
		if len(to.list) == 0 {
			to.since = now
		}
		to.list = append(kept, to.list...)
		poke(r.wakePend)
	}
	return lost
}

// sortOut reads a batch's answer: what has to be sent again, and which messages were lost.
func sortOut(sent []settlement, outcomes []outcome) (again []settlement, lost []*LeasedMessage) {
	for i, s := range sent {
		switch statusOf(outcomes, i, s.message.ID) {
		case "ok":
		case "message_not_found":
			if !s.repeated { // deleted under the handler's hands; after a repeat it is only done
				lost = append(lost, s.message)
			}
		case "lease_lost":
			if !s.repeated || s.nack == nil { // a nack that was taken ends the lease
				lost = append(lost, s.message)
			}
		default: // redis_unavailable, outcome_unknown, or nothing said
			again = append(again, s)
		}
	}
	return again, lost
}

// statusOf looks for a message's status; answers are in the order of the request.
func statusOf(outcomes []outcome, i int, id string) string {
	if i < len(outcomes) && outcomes[i].ID == id {
		return outcomes[i].Status
	}
	return ""
}

func (r *run) settleLoop() {
	defer close(r.settled)
	failures := 0
	for {
		r.mu.Lock()
		if r.telling {
			r.news = true // what was given back may be ready
			r.room.Signal()
		}
		draining := closed(r.draining)
		acks, wait := r.acks.due(draining)
		nacks, nackWait := r.nacks.due(draining)
		r.telling = acks != nil || nacks != nil
		r.mu.Unlock()
		if acks == nil && nacks == nil {
			if draining {
				return
			}
			if wait = min(wait, nackWait); wait < never {
				sleep(wait, r.draining)
				continue
			}
			select {
			case <-r.wakePend:
			case <-r.draining:
			}
			continue
		}
		err := r.send(r.toAck, acks, &r.acks)
		if nackErr := r.send(r.toNack, nacks, &r.nacks); nackErr != nil {
			err = nackErr
		}
		if r.settles.Err() != nil {
			return
		}
		if err == nil {
			failures = 0
			continue
		}
		r.troubled(err)
		if hopeless(err) {
			r.fail(err)
			if draining {
				return
			}
		}
		if draining { // there are only seconds left
			sleep(min(backoff(failures, nil), time.Second), r.settles.Done())
		} else {
			sleep(pause(failures, err), r.draining)
		}
		failures++
	}
}

// due takes what has pended long enough, or says how long that is away.
func (p *pending) due(all bool) ([]settlement, time.Duration) {
	if len(p.list) == 0 {
		return nil, never
	}
	if wait := gather - time.Since(p.since); wait > 0 && !all {
		return nil, wait
	}
	return p.take(), 0
}

// send sends a batch; its error says that some of it has to be sent again.
func (r *run) send(to *url.URL, batch []settlement, from *pending) error {
	if len(batch) == 0 {
		return nil
	}
	var answer struct {
		Results []outcome `json:"results"`
	}
	body, err := r.post(r.settles, settleTimeout, to, settleBody(batch))
	if err == nil {
		err = json.Unmarshal(body, &answer)
	}
	again, lost := batch, []*LeasedMessage(nil)
	if err == nil {
		again, lost = sortOut(batch, answer.Results)
		if len(again) > 0 {
			err = errUnsettled
		}
	}
	r.mu.Lock()
	lost = append(lost, r.again(from, slices.Clone(again), time.Now())...)
	r.mu.Unlock()
	r.lost(lost...)
	return err
}

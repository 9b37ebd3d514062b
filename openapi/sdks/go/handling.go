package dueq

// Running handlers: a goroutine each, which takes what waits when it is done and ends when nothing does.

import (
	"context"
	"errors"
	"runtime/debug"
	"time"
)

// admit takes what a lease brought: as many as may begin at once, the others wait. The lock is held.
func (r *run) admit(messages []LeasedMessage, arrived time.Time) {
	for i := range messages {
		message := &messages[i]
		left := time.Duration(message.LeaseMs) * time.Millisecond
		h := &held{message: message, lease: left, deadline: arrived.Add(left), extendAt: arrived.Add(left / 3)}
		if r.lease != 0 {
			h.lease = r.lease
		}
		r.held[h] = struct{}{}
		switch {
		case closed(r.stopping):
			r.giveBack(h)
			continue
		case r.running < r.concurrency:
			r.running++
			r.handlers.Add(1)
			go r.work(h, r.contextOf(h))
		default:
			r.waiting = append(r.waiting, h)
		}
		r.lookBy(h.extendAt)
	}
}

// contextOf gives a message the context that its handler runs in. The lock is held.
func (r *run) contextOf(h *held) context.Context {
	ctx, cancel := context.WithCancelCause(r.base)
	h.cancel = cancel
	trace := h.message.GetTraceparent()
	if trace == "" {
		trace = h.message.Headers[traceparent]
	}
	if trace != "" {
		ctx = WithTraceparent(ctx, trace)
	}
	return ctx
}

func (r *run) work(h *held, ctx context.Context) {
	defer r.handlers.Done()
	returned := false
	defer func() {
		if returned {
			return
		}
		// runtime.Goexit, as a test's FailNow: this goroutine ends here, and what waits needs another.
		if next, ctx := r.finish(h, errGoexit, 0); next != nil {
			r.handlers.Add(1)
			go r.work(next, ctx)
		}
	}()
	for h != nil {
		r.started(h.message)
		began := time.Now()
		err := r.call(ctx, h.message)
		h, ctx = r.finish(h, err, time.Since(began))
	}
	returned = true
}

func (r *run) call(ctx context.Context, message *LeasedMessage) (err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	err = r.handle(ctx, message)
	returned = true
	return err
}

// finish settles a message as its handler's error says, and gives this goroutine's next one, or nil.
func (r *run) finish(h *held, err error, took time.Duration) (*held, context.Context) {
	r.mu.Lock()
	lost := h.lost
	r.mu.Unlock()
	var why *nack
	switch {
	case lost: // what the handler made of it counts for nothing
	case err != nil:
		r.failed(h.message, err)
		why = nackOf(err)
	default:
		r.done(h.message, took)
	}
	var ctx context.Context
	r.mu.Lock()
	h.cancel(nil)
	if !h.lost {
		delete(r.held, h)
		if why != nil && h.told {
			why = &nack{release: true}
		}
		s := settlement{message: h.message, deadline: h.deadline, nack: why}
		if why == nil {
			r.pend(&r.acks, s)
		} else {
			r.pend(&r.nacks, s)
		}
	}
	next, late := r.next()
	if next != nil {
		ctx = r.contextOf(next)
	} else {
		r.running--
	}
	r.news = true
	if r.hasRoom() {
		r.room.Signal()
	}
	r.mu.Unlock()
	r.lost(late...)
	return next, ctx
}

// next takes the message that has waited longest, and drops those whose lease is over. The lock is held.
func (r *run) next() (next *held, late []*LeasedMessage) {
	for len(r.waiting) > 0 {
		h := r.waiting[0]
		r.waiting[0] = nil
		r.waiting = r.waiting[1:]
		if time.Now().Before(h.deadline) {
			return h, late
		}
		h.lost = true
		delete(r.held, h)
		late = append(late, h.message)
	}
	return nil, late
}

// nackOf says how a message is given back after its handler's error.
func nackOf(err error) (n *nack) {
	n = &nack{}
	defer ignorePanic() // of the error's own methods
	var said verdict
	if errors.As(err, &said) {
		said.decide(n)
		if said.Unwrap() == nil && err == error(said) {
			return n
		}
	}
	n.reason = reasonOf(err)
	return n
}

package dueq

// The worker: what it is, how it starts and stops. Its parts are one file each: leasing.go asks for messages, handling.go runs
// handlers, settling.go acknowledges and gives back, extending.go keeps leases.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"
)

// Handler handles one message. Returning nil acknowledges it; an error gives it back, to come again after the topic's backoff
// with the error's text as reason, unless [RetryIn] or [Dead] says otherwise (also when wrapped). A panic counts as an error.
//
// Its context ends when the lease is lost (its cause is [ErrLeaseLost]) or when the worker stops and the handler outran the stop
// timeout ([ErrStopTimeout]), but not with the context of Run. A handler may see a message again that it has handled: delivery is
// at least once.
type Handler func(ctx context.Context, message *LeasedMessage) error

// Handle makes a [Handler] of a function that takes the decoded payload. A payload that encoding/json cannot decode into a T is an
// error of the handler: the message comes again after the topic's backoff, and is dead when its attempts are used up.
func Handle[T any](handle func(ctx context.Context, payload T, message *LeasedMessage) error) Handler {
	if handle == nil {
		return nil // which Run refuses
	}
	return func(ctx context.Context, message *LeasedMessage) error {
		var payload T
		if err := message.Decode(&payload); err != nil {
			return fmt.Errorf("cannot decode the payload: %w", err)
		}
		return handle(ctx, payload, message)
	}
}

// Worker leases the messages of a topic, or of several ([WithTopics]), and has a handler handle them, several at once; make one by
// [NewWorker].
type Worker struct {
	client  *Client
	topic   string
	handler Handler
	settings
}

// NewWorker makes a worker; it does nothing before [Worker.Run]. What is wrong with the options, Run says.
func NewWorker(client *Client, topic string, handler Handler, options ...Option) *Worker {
	worker := &Worker{client: client, topic: topic, handler: handler, settings: defaults()}
	for _, option := range options {
		option(&worker.settings)
	}
	return worker
}

const (
	// What lease requests under way have to be answered when the worker stops. Aborting at once would do: dueq takes back what it
	// granted to a client that is gone. But an answer on its way would be lost, and its messages with it until their leases end.
	leaseGrace = 500 * time.Millisecond
	// What handlers have to return after they were told that the stop timeout is over.
	handlerGrace = 500 * time.Millisecond
	// How long acks and nacks that fail are repeated when all else has ended.
	settleGrace = 5 * time.Second
)

// Run works until the context ends (or, [WithUntilEmpty], until no message is due), and then stops: no message is leased any more, what waits for a handler is given back,
// running handlers may finish (for the stop timeout), what is done is acknowledged; then it returns nil. No message is held by
// this worker then.
//
// A server that is busy, away or restarting is waited for. Run stops in the same way and returns an error where waiting would not
// help: a [*ProblemError] if the server refuses to be asked (a wrong key or topic, a pushed topic).
func (w *Worker) Run(ctx context.Context) error {
	if w.client == nil || w.topic == "" || w.handler == nil {
		return errors.New("dueq: a worker needs a client, a topic and a handler")
	}
	if err := errors.Join(w.client.wrong, w.check()); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil
	}
	r, err := newRun(ctx, w)
	if err != nil {
		return err
	}
	ctx, r.end = context.WithCancel(ctx)
	defer r.end()
	r.loops.Add(1)
	r.loopCount = 1
	go r.leaseLoop()
	go r.settleLoop()
	go r.extendLoop()
	<-ctx.Done()
	r.stop()
	r.mu.Lock() // an extension may still be under way
	defer r.mu.Unlock()
	return r.failure
}

// run is one call of Run.
type run struct {
	*Worker
	// What handlers' contexts and requests come from: the values of Run's context, but not its end.
	base context.Context
	// Where requests go.
	toLease, toAck, toNack, toExtend *url.URL
	// The names of several topics as lease requests say them; nil for one, which is in the path.
	topics []byte
	// The worker's handler in its middleware.
	handle Handler
	// How many messages are held at most, how many a request asks for at most, and how many lease loops there are at most.
	limit, batch, maxLoops int

	// For lease requests, and for acks, nacks and extensions.
	leases, settles           context.Context
	abortLeases, abortSettles context.CancelFunc

	end context.CancelFunc // has Run stop

	loops    sync.WaitGroup // lease loops
	handlers sync.WaitGroup // goroutines that run handlers
	stopping chan struct{}  // closed: no new lease
	draining chan struct{}  // closed: no handler runs any more
	settled  chan struct{}  // closed: all acks and nacks are sent, or given up
	wakePend chan struct{}  // an ack or nack pends
	wakeHeld chan struct{}  // a lease wants extending earlier than was known

	mu             sync.Mutex
	failure        error
	room           *sync.Cond // lease loops wait here until messages may be held
	loopCount      int
	failures       int // of lease requests, one after another
	reserved       int // messages that lease requests under way ask for
	running        int // handlers
	waiting        []*held
	held           map[*held]struct{} // waiting and running, but not the lost
	nextLook       time.Time          // when leases are looked at next
	extendFailures int                // one after another
	acks, nacks    pending            // what the server is still to be told
	telling        bool               // a request with some of that is under way
	news           bool               // since the last lease request began, something may have made a message ready

	outage outage
}

// held is a leased message: it waits for a handler, or one runs.
type held struct {
	message   *LeasedMessage
	lease     time.Duration // what an extension asks for
	deadline  time.Time     // when the lease is over, by the monotonic clock
	extendAt  time.Time
	extending bool
	cancel    context.CancelCauseFunc // nil while it waits
	lost      bool
	told      bool // that the stop timeout is over
}

func newRun(ctx context.Context, w *Worker) (*run, error) {
	r := &run{
		Worker:   w,
		handle:   w.handler,
		base:     context.WithoutCancel(ctx),
		limit:    w.concurrency,
		batch:    max(w.prefetch, min((w.concurrency+mostLoops-1)/mostLoops, 1000)),
		stopping: make(chan struct{}),
		draining: make(chan struct{}),
		settled:  make(chan struct{}),
		wakePend: make(chan struct{}, 1),
		wakeHeld: make(chan struct{}, 1),
		held:     map[*held]struct{}{},
	}
	if w.prefetch > 1 {
		r.limit += w.prefetch
	}
	r.maxLoops = min(mostLoops, (r.limit+r.batch-1)/r.batch)
	for _, wrap := range slices.Backward(w.middleware) {
		if wrap != nil {
			r.handle = wrap(r.handle)
		}
		if wrap == nil || r.handle == nil {
			return nil, errors.New("dueq: a middleware is nil, or made no handler")
		}
	}
	lease := "/topics/" + url.PathEscape(w.topic) + "/lease"
	if len(w.others) > 0 {
		lease = "/lease"
		r.topics, _ = json.Marshal(append([]string{w.topic}, w.others...)) // strings always can be
	}
	for path, to := range map[string]**url.URL{
		lease:              &r.toLease,
		"/messages/ack":    &r.toAck,
		"/messages/nack":   &r.toNack,
		"/messages/extend": &r.toExtend,
	} {
		var err error
		if *to, err = w.client.endpoint(path); err != nil {
			return nil, err
		}
	}
	r.room = sync.NewCond(&r.mu)
	r.leases, r.abortLeases = context.WithCancel(r.base)
	r.settles, r.abortSettles = context.WithCancel(r.base)
	return r, nil
}

// fail has Run stop and return the error; the first one counts.
func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure == nil {
		r.failure = err
	}
	r.end()
}

func (r *run) stop() {
	timeout := time.After(r.stopTimeout)
	r.mu.Lock()
	close(r.stopping)
	for _, h := range r.waiting {
		r.giveBack(h)
	}
	r.waiting = nil
	r.room.Broadcast()
	r.mu.Unlock()

	abort := time.AfterFunc(leaseGrace, r.abortLeases)
	r.loops.Wait()
	abort.Stop()
	r.abortLeases()

	idle := make(chan struct{})
	go func() {
		r.handlers.Wait()
		close(idle)
	}()
	select {
	case <-idle:
	case <-timeout:
		r.abandon(idle)
	}

	close(r.draining)
	giveUp := time.AfterFunc(settleGrace, r.abortSettles)
	<-r.settled
	giveUp.Stop()
	r.abortSettles()
}

// abandon tells the handlers to end, and gives back what they do not finish at once. A handler that minds no context runs on by
// itself; what it returns counts for nothing.
func (r *run) abandon(idle <-chan struct{}) {
	r.mu.Lock()
	for h := range r.held {
		h.told = true
		h.cancel(ErrStopTimeout)
	}
	r.mu.Unlock()
	select {
	case <-idle:
	case <-time.After(handlerGrace):
	}
	r.mu.Lock()
	for h := range r.held {
		h.lost = true
		r.giveBack(h)
	}
	r.mu.Unlock()
}

// giveBack releases a message that was not worked on, or not to its end. The lock is held.
func (r *run) giveBack(h *held) {
	delete(r.held, h)
	r.pend(&r.nacks, settlement{message: h.message, deadline: h.deadline, nack: &nack{release: true}})
}

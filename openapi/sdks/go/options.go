package dueq

import (
	"errors"
	"fmt"
	"time"
)

// Option is a choice for [NewWorker].
type Option func(*settings)

type settings struct {
	others      []string // topics
	concurrency int
	prefetch    int
	lease       time.Duration
	wait        time.Duration
	stopTimeout time.Duration
	untilEmpty  bool
	middleware  []func(Handler) Handler
	hooks       Hooks
}

func defaults() settings {
	return settings{concurrency: 10, prefetch: 1, wait: 20 * time.Second, stopTimeout: 30 * time.Second}
}

// WithConcurrency sets how many handlers run at once; 10 unless given.
func WithConcurrency(handlers int) Option {
	return func(s *settings) { s.concurrency = handlers }
}

// WithTopics has the worker handle messages of further topics, 32 in all. The order is strict: a message of a topic is leased only
// while none is due in the topics before it, and that of [NewWorker] is the first.
func WithTopics(topics ...string) Option {
	return func(s *settings) { s.others = append(s.others, topics...) }
}

// WithPrefetch sets how many messages may wait here for a handler, up to 1000, their leases kept. 1, which holds unless given, means
// none: a request leases for free handlers only.
func WithPrefetch(messages int) Option {
	return func(s *settings) { s.prefetch = messages }
}

// WithLease sets how long a lease lasts, 1 s to 12 h; the topic's unless given. A running handler's lease is extended whenever
// a third of it has passed, so this says how soon a message comes back after a crash, not how long a handler may take.
func WithLease(lease time.Duration) Option {
	return func(s *settings) { s.lease = lease }
}

// WithWait sets how long a request waits for a message, up to 60 s; 20 s unless given. Keep it 5 s below every timeout of proxies
// on the way.
func WithWait(wait time.Duration) Option {
	return func(s *settings) { s.wait = wait }
}

// WithStopTimeout sets how long running handlers have when the worker stops before they are cancelled; 30 s unless given.
func WithStopTimeout(timeout time.Duration) Option {
	return func(s *settings) { s.stopTimeout = timeout }
}

// WithUntilEmpty has [Worker.Run] return by itself when no message is due and no handler runs: for tests, and for jobs that a timer
// starts.
func WithUntilEmpty() Option {
	return func(s *settings) { s.untilEmpty = true }
}

// WithMiddleware wraps the handler, for what every message needs: time, logs, a transaction. The first is outermost. A middleware
// sees what the handler returns, may return another error (also [RetryIn] or [Dead]) or none, and may leave the handler out.
//
//	func timed(next dueq.Handler) dueq.Handler {
//		return func(ctx context.Context, message *dueq.LeasedMessage) error {
//			began := time.Now()
//			err := next(ctx, message)
//			slog.Info("handled", "id", message.ID, "took", time.Since(began), "error", err)
//			return err
//		}
//	}
func WithMiddleware(middleware ...func(Handler) Handler) Option {
	return func(s *settings) { s.middleware = append(s.middleware, middleware...) }
}

// WithHooks has the worker tell what it does.
func WithHooks(hooks Hooks) Option {
	return func(s *settings) { s.hooks = hooks }
}

// Hooks are called as things happen, for logs and metrics; any may be nil. They are called by many goroutines at once, and the
// worker waits for them, so they should be quick. One that panics is ignored. Without OnFailed and OnError the worker logs what
// they would be told to [slog.Default].
type Hooks struct {
	// OnLease: a request brought so many messages (never 0).
	OnLease func(count int)
	// OnStart: the handler is about to be called.
	OnStart func(message *LeasedMessage)
	// OnDone: the handler returned nil after so long, its lease not lost. The message is acknowledged from now on, not yet.
	OnDone func(message *LeasedMessage, took time.Duration)
	// OnFailed: the handler returned an error, or panicked ([*PanicError]), its lease not lost. Whether it was [RetryIn] or [Dead]
	// says [errors.As] ([*RetryError], [*DeadError]).
	OnFailed func(message *LeasedMessage, err error)
	// OnLost: the lease was lost before the message was settled; somebody will get it again, unless it was deleted.
	OnLost func(message *LeasedMessage)
	// OnError: a request failed and will be made again, or (what Run returns) cannot get better.
	OnError func(err error)
}

func (s *settings) check() error {
	var wrong []error
	refuse := func(bad bool, format string, value any) {
		if bad {
			wrong = append(wrong, fmt.Errorf("dueq: "+format, value))
		}
	}
	refuse(s.concurrency < 1, "the concurrency is %d, and has to be 1 or more", s.concurrency)
	refuse(s.prefetch < 1 || s.prefetch > 1000, "the prefetch is %d, and has to be 1 to 1000", s.prefetch)
	refuse(s.lease != 0 && (s.lease < time.Second || s.lease > 12*time.Hour), "the lease is %s, and has to be 1s to 12h", s.lease)
	refuse(s.wait < 0 || s.wait > time.Minute, "the wait is %s, and has to be 0 to 60s", s.wait)
	refuse(s.stopTimeout < 0, "the stop timeout is %s, and may not be negative", s.stopTimeout)
	return errors.Join(wrong...)
}

// The hooks, guarded.

func (s *settings) leased(count int) {
	if s.hooks.OnLease != nil {
		defer ignorePanic()
		s.hooks.OnLease(count)
	}
}

func (s *settings) started(message *LeasedMessage) {
	if s.hooks.OnStart != nil {
		defer ignorePanic()
		s.hooks.OnStart(message)
	}
}

func (s *settings) done(message *LeasedMessage, took time.Duration) {
	if s.hooks.OnDone != nil {
		defer ignorePanic()
		s.hooks.OnDone(message, took)
	}
}

func (s *settings) failed(message *LeasedMessage, err error) {
	defer ignorePanic() // of the error's own methods, too
	if s.hooks.OnFailed != nil {
		s.hooks.OnFailed(message, err)
	} else {
		logFailed(message, err)
	}
}

func (s *settings) lost(messages ...*LeasedMessage) {
	if s.hooks.OnLost == nil {
		return
	}
	for _, message := range messages {
		func() {
			defer ignorePanic()
			s.hooks.OnLost(message)
		}()
	}
}

func (s *settings) troubled(err error) {
	if s.hooks.OnError != nil {
		defer ignorePanic()
		s.hooks.OnError(err)
	}
}

func ignorePanic() { _ = recover() }

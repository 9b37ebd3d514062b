package dueq

// What a worker logs where no hook is set: handlers that failed, and when the server is away and back.

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"sync"
	"time"
)

func logFailed(message *LeasedMessage, err error) {
	attributes := []any{"topic", message.Topic, "id", message.ID, "attempt", message.Attempt, "error", err}
	var panicked *PanicError
	var retry *RetryError
	var dead *DeadError
	switch {
	case errors.As(err, &panicked):
		slog.Error("dueq: the handler panicked", append(attributes, "stack", string(panicked.Stack))...)
	case errors.As(err, &retry) && message.AttemptsLeft > 0:
		slog.Info("dueq: the handler wants the message again", append(attributes, "retry_in", retry.Delay)...)
	case errors.As(err, &dead):
		slog.Warn("dueq: the handler says that the message is dead", attributes...)
	default:
		slog.Warn("dueq: the handler failed", attributes...)
	}
}

// outage is a time in which requests fail, of which only the beginning and the end are logged.
type outage struct {
	mu       sync.Mutex
	goesOn   bool
	answered time.Time // last
}

// post is [Client.post], and notes how it went.
func (r *run) post(ctx context.Context, timeout time.Duration, to *url.URL, body []byte) ([]byte, error) {
	began := time.Now()
	answer, err := r.client.post(ctx, timeout, to, body)
	if r.hooks.OnError == nil && ctx.Err() == nil && !hopeless(err) {
		r.outage.note(r.client.server, began, err)
	}
	return answer, err
}

func (o *outage) note(server string, began time.Time, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer ignorePanic() // of the logger
	switch {
	case err == nil:
		o.answered = time.Now()
		if o.goesOn {
			o.goesOn = false
			slog.Info("dueq: " + server + " answers again")
		}
	case !o.goesOn && began.After(o.answered): // otherwise it is of an outage that is over
		o.goesOn = true
		slog.Warn("dueq: cannot reach "+server+", retrying", "error", err)
	}
}

package dueq

// How generated calls reach the server: each try has a time-out, what is safe to repeat is repeated, and what goes wrong is an
// error of this package.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"dueq.dev/go/api"
)

// sending makes the client that generated calls use.
func (c *Client) sending() *http.Client {
	copied := *c.http
	if copied.Transport == nil {
		copied.Transport = http.DefaultTransport
	}
	copied.Transport = sender{c, copied.Transport}
	return &copied
}

type sender struct {
	client *Client
	next   http.RoundTripper
}

// call is what a request is, as far as sending it goes.
type call struct {
	operation  string        // for errors
	limit      time.Duration // of one try; 0: none
	repeatable bool
	// Whether "there is no such message", said to a repeat, means that an earlier try was taken.
	ends bool
}

// deadlineKey is under which a context holds when to give up a call that has been made safe to repeat.
type deadlineKey struct{}

// repeating marks a call that publishes as safe to repeat, if any are to be repeated and all its messages say what becomes of a
// repeat.
func (c *Client) repeating(ctx context.Context, requests ...api.PublishRequest) context.Context {
	if c.retries <= 0 {
		return ctx
	}
	if !keyed(requests) {
		return ctx
	}
	return context.WithValue(ctx, deadlineKey{}, time.Now().Add(c.retries))
}

func keyed(requests []api.PublishRequest) bool {
	return !slices.ContainsFunc(requests, func(r api.PublishRequest) bool { return !repeats(r) })
}

// repeats is whether a publish says what becomes of a repeat.
func repeats(r api.PublishRequest) bool {
	return r.HasIdempotencyKey() || r.HasDebounce() || r.HasThrottle() || r.HasOnce()
}

// deadlineOf is zero where calls are not marked.
func deadlineOf(ctx context.Context) time.Time {
	deadline, _ := ctx.Value(deadlineKey{}).(time.Time)
	return deadline
}

func (c *Client) callOf(request *http.Request) call {
	path := strings.TrimPrefix(request.URL.EscapedPath(), c.base)
	made := call{operation: request.Method + " " + path, limit: c.timeout}
	ofMessage := strings.HasPrefix(path, "/messages/") || strings.HasPrefix(path, "/topics/") && strings.Contains(path, "/keys/")
	switch request.Method {
	case http.MethodGet:
		made.repeatable = path != "/readyz" && path != "/healthz" // what they say now is what counts
	case http.MethodDelete:
		made.repeatable, made.ends = ofMessage, ofMessage
	case http.MethodPatch:
		made.repeatable = ofMessage
	case http.MethodPost:
		made.ends = ofMessage && strings.HasSuffix(path, "/ack")
		made.repeatable = made.ends || ofMessage && (strings.HasSuffix(path, "/nack") || strings.HasSuffix(path, "/extend")) ||
			!deadlineOf(request.Context()).IsZero()
		if made.limit > 0 && strings.HasSuffix(path, "/lease") {
			made.limit += waitOf(request)
		}
	}
	if made.repeatable = made.repeatable && c.retries > 0; made.repeatable {
		made.limit /= 3
	}
	return made
}

// waitOf is how long a lease request waits for messages.
func waitOf(request *http.Request) time.Duration {
	var asked struct {
		WaitMs int64 `json:"wait_ms"`
	}
	if request.GetBody != nil {
		if body, err := request.GetBody(); err == nil {
			_ = json.NewDecoder(body).Decode(&asked) // what cannot be read the server refuses
		}
	}
	return time.Duration(asked.WaitMs) * time.Millisecond
}

// RoundTrip never fails by itself: an answer whose body ends in the error has generated code return just that, where otherwise it
// would make an error of its own, which knows neither code nor Retry-After, or get one that http.Client has wrapped.
func (s sender) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body != nil {
		defer request.Body.Close() // each try reads a copy
	}
	response, err := s.send(request)
	if err == nil {
		return response, nil
	}
	if response == nil {
		response = &http.Response{Request: request, Header: http.Header{}, Body: http.NoBody}
	}
	response.Body = io.NopCloser(io.MultiReader(response.Body, failing{err}))
	return response, nil
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func (s sender) send(request *http.Request) (*http.Response, error) {
	if s.client.wrong != nil {
		return nil, s.client.wrong
	}
	if err := check(strings.TrimPrefix(request.URL.EscapedPath(), s.client.base)); err != nil {
		return nil, err
	}
	ctx, made := request.Context(), s.client.callOf(request)
	deadline := deadlineOf(ctx)
	if deadline.IsZero() {
		deadline = time.Now().Add(s.client.retries)
	}
	taken := false // perhaps
	for failures := 0; ; failures++ {
		limit := made.limit
		if made.repeatable {
			if left := time.Until(deadline); limit <= 0 || left < limit {
				limit = left
			}
		}
		response, err := s.try(request, made.operation, limit)
		if err == nil {
			return response, nil
		}
		if taken && made.ends && Code(err) == "message_not_found" {
			return &http.Response{StatusCode: http.StatusNoContent, Request: request, Header: http.Header{}, Body: http.NoBody}, nil
		}
		taken = taken || mayBeTaken(err)
		delay := backoff(failures, err)
		if !made.repeatable || !passing(err) || ctx.Err() != nil || time.Until(deadline) <= delay {
			return response, err
		}
		sleep(delay, ctx.Done())
	}
}

// try makes a request once. With a *ProblemError comes the answer that it was.
func (s sender) try(request *http.Request, operation string, limit time.Duration) (*http.Response, error) {
	ctx := request.Context()
	if limit != 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	attempt := request.WithContext(ctx)
	if request.GetBody != nil {
		body, err := request.GetBody()
		if err != nil {
			return nil, err
		}
		attempt.Body = body
	}
	response, err := s.next.RoundTrip(attempt)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(response.Body)
		response.Body.Close()
	}
	if err != nil {
		return nil, s.client.unanswered(request.Context(), operation, err)
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	if response.StatusCode >= 300 {
		return response, newProblem(response.StatusCode, response.Header, body)
	}
	path := request.URL.Path
	isJSON := !strings.HasSuffix(path, "/metrics") && !strings.HasSuffix(path, "/payload")
	if response.StatusCode != http.StatusNoContent && isJSON {
		if err := s.client.foreign(operation, response.Header); err != nil {
			return nil, err
		}
		if !json.Valid(body) { // cut, by something that did not say how long it would be
			return nil, s.client.unanswered(request.Context(), operation, io.ErrUnexpectedEOF)
		}
	}
	return response, nil
}

// passing tells whether it makes sense to repeat what ended in this error.
func passing(err error) bool {
	var problem *ProblemError
	var connect *ConnectError
	var timeout *TimeoutError
	switch {
	case errors.As(err, &problem):
		switch problem.Status {
		case http.StatusRequestTimeout, http.StatusTooManyRequests,
			http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return false
	case errors.As(err, &connect):
		return !connect.hopeless()
	default:
		return errors.As(err, &timeout)
	}
}

// mayBeTaken tells whether the server may have done what it was asked, although this is how it ended.
func mayBeTaken(err error) bool {
	var problem *ProblemError
	if errors.As(err, &problem) {
		return problem.Code == "outcome_unknown" || problem.Code == ""
	}
	return !dialling(err)
}

package dueq

// What a call may end in. dueq answers every refusal as application/problem+json with a stable code; here that is one error
// type, whichever call it comes out of. Two more are for requests that have no answer.

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"dueq.dev/go/api"
)

// ProblemError is a request that the server refused.
//
//	var problem *dueq.ProblemError
//	if errors.As(err, &problem) && problem.Code == "duplicate_key" { … }
type ProblemError struct {
	// Status is the HTTP status.
	Status int
	// Code says what went wrong in a word that does not change (`duplicate_key`); empty if something between the server and
	// here answered.
	Code string
	// Title and Detail say it for people: in general, and in this case.
	Title, Detail string
	// Errors are the fields that were wrong, where the input was.
	Errors []api.FieldError
	// RequestID is how the server's log names the request.
	RequestID string
	// RetryAfter is how long the server wants to be left alone; 0 if it did not say.
	RetryAfter time.Duration
}

// Error says in one line what was wrong: the fields, or else Detail.
func (p *ProblemError) Error() string {
	text := fmt.Sprintf("dueq: %d %s", p.Status, p.Code)
	if p.Code == "" {
		text = fmt.Sprintf("dueq: %d %s", p.Status, p.Title)
	}
	var wrong []string
	for _, field := range p.Errors {
		wrong = append(wrong, field.Field+": "+field.Reason)
	}
	if wrong != nil { // of which Detail names the first
		text += ": " + strings.Join(wrong, "; ")
	} else if p.Detail != "" {
		text += ": " + p.Detail
	}
	if p.RequestID != "" {
		text += " (request " + p.RequestID + ")"
	}
	return text
}

// Code is the code of a [ProblemError], wherever it is in the error, and "" if there is none.
//
//	if dueq.Code(err) == "duplicate_key" { … }
func Code(err error) string {
	var problem *ProblemError
	if errors.As(err, &problem) {
		return problem.Code
	}
	return ""
}

// passes tells whether the same request may succeed later: the server is busy, away, or not up to it now.
func (p *ProblemError) passes() bool {
	return p.Status == http.StatusRequestTimeout || p.Status == http.StatusTooManyRequests || p.Status >= 500
}

func newProblem(status int, header http.Header, body []byte) *ProblemError {
	problem := &ProblemError{Status: status}
	var said struct {
		Code      string           `json:"code"`
		Title     string           `json:"title"`
		Detail    string           `json:"detail"`
		Errors    []api.FieldError `json:"errors"`
		RequestID string           `json:"request_id"`
	}
	if json.Unmarshal(body, &said) == nil && said.Code != "" {
		problem.Code, problem.Title, problem.Detail = said.Code, said.Title, said.Detail
		problem.Errors, problem.RequestID = said.Errors, said.RequestID
	} else { // a proxy's page, most likely: its beginning is all that helps
		problem.Title = http.StatusText(status)
		problem.Detail = strings.TrimSpace(strings.ToValidUTF8(string(body[:min(len(body), 200)]), ""))
		if to := header.Get("Location"); to != "" && status < 400 {
			problem.Detail = "redirects are not followed, and this one is to " + to
		}
	}
	if seconds, err := strconv.ParseUint(header.Get("Retry-After"), 10, 31); err == nil {
		problem.RetryAfter = time.Duration(seconds) * time.Second
	}
	return problem
}

// ConnectError is a request that had no answer because the server could not be reached, or because the connection broke.
type ConnectError struct {
	// URL is that of the server, as the client was given it.
	URL string
	// Operation is what was asked: POST /topics/orders/messages.
	Operation string
	// Err is the cause.
	Err error
}

func (e *ConnectError) Error() string {
	what := "the connection broke to"
	if dialling(e.Err) || e.hopeless() {
		what = "cannot reach"
	}
	return fmt.Sprintf("dueq: %s: %s %s: %v", e.Operation, what, e.URL, e.Err)
}

func (e *ConnectError) Unwrap() error { return e.Err }

// hopeless tells whether the next try will end like this, too.
func (e *ConnectError) hopeless() bool {
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError // the server does not speak TLS
	return errors.As(e.Err, &certificate) || errors.As(e.Err, &record) || errors.Is(e.Err, http.ErrSchemeMismatch)
}

// TimeoutError is a request that had no answer in time: see [WithTimeout], or the deadline of its context.
type TimeoutError struct {
	// URL is that of the server, as the client was given it.
	URL string
	// Operation is what was asked: POST /topics/orders/messages.
	Operation string
	// Err is the cause.
	Err error
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("dueq: %s: no answer from %s in time: %v", e.Operation, e.URL, e.Err)
}

func (e *TimeoutError) Unwrap() error { return e.Err }

// Timeout is true, as in [net.Error].
func (e *TimeoutError) Timeout() bool { return true }

// unanswered is the error of a request that failed with another. The context is the caller's.
func (c *Client) unanswered(ctx context.Context, operation string, err error) error {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("dueq: %s: %w", operation, ctx.Err())
	case errors.As(err, &timeout) && timeout.Timeout():
		return &TimeoutError{URL: c.server, Operation: operation, Err: err}
	default:
		return &ConnectError{URL: c.server, Operation: operation, Err: err}
	}
}

// foreign is the error of an answer with which dueq does not answer: a web page, most likely, of something else at that URL.
func (c *Client) foreign(operation string, header http.Header) error {
	kind := header.Get("Content-Type")
	if strings.Contains(kind, "json") || kind == "application/octet-stream" {
		return nil
	}
	return fmt.Errorf("dueq: %s: %s answered with %q instead of JSON: is it dueq?", operation, c.server, kind)
}

// dialling tells whether there was no connection yet.
func dialling(err error) bool {
	var operation *net.OpError
	return errors.As(err, &operation) && operation.Op == "dial"
}

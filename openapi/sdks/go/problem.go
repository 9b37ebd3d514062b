package dueq

// What the server refuses. dueq answers every refusal as application/problem+json with a stable code; here that is one error
// type, whichever of the generated calls it comes out of.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
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
	Errors []FieldError
	// RequestID is how the server's log names the request.
	RequestID string
	// RetryAfter is how long the server wants to be left alone; 0 if it did not say.
	RetryAfter time.Duration
}

// Error says all of it but RetryAfter in one line.
func (p *ProblemError) Error() string {
	said := p.Detail // names only the first field
	if len(p.Errors) > 0 {
		var fields []string
		for _, wrong := range p.Errors {
			fields = append(fields, wrong.Field+": "+wrong.Reason)
		}
		said = strings.Join(fields, "; ")
	}
	text := fmt.Sprintf("dueq: %d %s: %s", p.Status, p.Code, said)
	if p.RequestID != "" {
		text += " (request " + p.RequestID + ")"
	}
	return text
}

// passes tells whether the same request may succeed later: the server is busy, away, or not up to it now.
func (p *ProblemError) passes() bool {
	return p.Status == http.StatusRequestTimeout || p.Status == http.StatusTooManyRequests || p.Status >= 500
}

func newProblem(status int, header http.Header, body []byte) *ProblemError {
	problem := &ProblemError{Status: status}
	var said struct {
		Code      string       `json:"code"`
		Title     string       `json:"title"`
		Detail    string       `json:"detail"`
		Errors    []FieldError `json:"errors"`
		RequestID string       `json:"request_id"`
	}
	if json.Unmarshal(body, &said) == nil && said.Code != "" {
		problem.Code, problem.Title, problem.Detail = said.Code, said.Title, said.Detail
		problem.Errors, problem.RequestID = said.Errors, said.RequestID
	} else { // a proxy's page, most likely: its beginning is all that helps
		problem.Title = http.StatusText(status)
		problem.Detail = strings.ToValidUTF8(string(body[:min(len(body), 200)]), "")
	}
	if seconds, err := strconv.ParseUint(header.Get("Retry-After"), 10, 31); err == nil {
		problem.RetryAfter = time.Duration(seconds) * time.Second
	}
	return problem
}

// refusing makes refusals errors for generated code, which would return an error of its own that knows neither the code nor
// Retry-After. A body that ends in the error is enough: generated code reads it to its end first, and returns what that says.
func refusing(client *http.Client) *http.Client {
	copied := *client
	if copied.Transport == nil {
		copied.Transport = http.DefaultTransport
	}
	copied.Transport = refuser{copied.Transport}
	return &copied
}

type refuser struct{ next http.RoundTripper }

func (r refuser) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.next.RoundTrip(request)
	if err != nil || response.StatusCode < 400 {
		return response, err
	}
	body, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil {
		return nil, err
	}
	problem := newProblem(response.StatusCode, response.Header, body)
	response.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), failing{problem}))
	return response, nil
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

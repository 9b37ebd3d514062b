package dueq

// How the worker talks: the few requests that it makes all the time, written and sent without the generated code, which parses
// and copies more than there is time for.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// endpoint is where a kind of request goes, parsed once.
func (c *Client) endpoint(path string) (*url.URL, error) {
	if err := check(path); err != nil {
		return nil, err
	}
	return url.Parse(c.server + path)
}

// check refuses a topic, key or id that is empty, or that paths use for "here" and "above": a proxy on the way may make it another
// request.
func check(path string) error {
	for _, segment := range strings.Split(path, "/")[1:] {
		if segment == "" || segment == "." || segment == ".." {
			return fmt.Errorf("dueq: a topic, key or id cannot be %q: %s", segment, path)
		}
	}
	return nil
}

// longestKnown bounds what is made room for because an answer says that it will be so long.
const longestKnown = 64 << 20

// post sends JSON and gives the answer's body. Its error is a *ProblemError if the server refuses (a redirect included: there is
// nothing to follow), and otherwise says why there is no answer.
func (c *Client) post(parent context.Context, timeout time.Duration, to *url.URL, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(parent, timeout)
	defer cancel()
	operation := "POST " + strings.TrimPrefix(to.EscapedPath(), c.base)
	request := (&http.Request{
		Method: http.MethodPost, URL: to, Host: to.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        c.header,
		ContentLength: int64(len(body)),
		Body:          io.NopCloser(bytes.NewReader(body)),
		GetBody:       func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
	}).WithContext(ctx)
	var response *http.Response
	var err error
	if c.transport != nil { // spares what http.Client does for redirects and cookies
		response, err = c.transport.RoundTrip(request)
	} else {
		request.Header = c.header.Clone()
		response, err = c.http.Do(request)
	}
	if err != nil {
		return nil, c.unanswered(parent, operation, err)
	}
	defer response.Body.Close()
	var answer []byte
	if length := response.ContentLength; length >= 0 && length <= longestKnown {
		answer = make([]byte, length)
		_, err = io.ReadFull(response.Body, answer)
	} else {
		answer, err = io.ReadAll(response.Body)
	}
	if err != nil {
		return nil, c.unanswered(parent, operation, err)
	}
	if response.StatusCode/100 != 2 {
		return nil, newProblem(response.StatusCode, response.Header, answer)
	}
	if err := c.foreign(operation, response.Header); err != nil {
		return nil, err
	}
	return answer, nil
}

func leaseBody(topics []byte, want int, lease, wait time.Duration, acks []settlement) []byte {
	body := make([]byte, 0, 80+len(topics)+len(acks)*128)
	body = append(body, `{"max_messages":`...)
	body = strconv.AppendInt(body, int64(want), 10)
	body = append(body, `,"wait_ms":`...)
	body = strconv.AppendInt(body, wait.Milliseconds(), 10)
	if topics != nil {
		body = append(body, `,"topics":`...)
		body = append(body, topics...)
	}
	if lease != 0 {
		body = append(body, `,"lease_ms":`...)
		body = strconv.AppendInt(body, milliseconds(lease), 10)
	}
	if len(acks) > 0 {
		body = append(body, `,"acks":[`...)
		for i, ack := range acks {
			body = append(appendHolder(body, i, ack.message), '}')
		}
		body = append(body, ']')
	}
	return append(body, '}')
}

// settleBody is the body of a batch of acks, or one of nacks.
func settleBody(settlements []settlement) []byte {
	body := make([]byte, 0, 16+len(settlements)*128)
	body = append(body, `{"messages":[`...)
	for i, s := range settlements {
		body = appendHolder(body, i, s.message)
		if n := s.nack; n != nil {
			if n.delayed {
				body = append(body, `,"delay_ms":`...)
				body = strconv.AppendInt(body, min(milliseconds(n.delay), longestDelay), 10)
			}
			if n.dead {
				body = append(body, `,"dead":true`...)
			}
			if n.release {
				body = append(body, `,"release":true`...)
			}
			if n.reason != "" {
				body = append(body, `,"reason":`...)
				body = appendString(body, n.reason)
			}
		}
		body = append(body, '}')
	}
	return append(body, "]}"...)
}

func extendBody(due []*held) []byte {
	body := make([]byte, 0, 16+len(due)*128)
	body = append(body, `{"messages":[`...)
	for i, h := range due {
		body = appendHolder(body, i, h.message)
		body = append(body, `,"lease_ms":`...)
		body = strconv.AppendInt(body, min(max(h.lease.Milliseconds(), shortestLease), longestLease), 10)
		body = append(body, '}')
	}
	return append(body, "]}"...)
}

// What the server takes, in ms; one value beyond would have a whole batch refused.
const (
	longestDelay  = 315_360_000_000
	shortestLease = 1_000
	longestLease  = 43_200_000
)

// appendHolder begins an object by who holds what.
func appendHolder(body []byte, i int, message *LeasedMessage) []byte {
	if i > 0 {
		body = append(body, ',')
	}
	body = append(body, `{"id":`...)
	body = appendString(body, message.ID)
	body = append(body, `,"lease_token":`...)
	return appendString(body, message.LeaseToken)
}

// appendString quotes; ids and tokens need no escapes.
func appendString(body []byte, text string) []byte {
	for i := 0; i < len(text); i++ {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(text) // a string always can be
			return append(body, quoted...)
		}
	}
	body = append(body, '"')
	body = append(body, text...)
	return append(body, '"')
}

// Small things that the worker's parts share.

// never is longer than any wait.
const never = time.Duration(1<<63 - 1)

// sleep waits until a time has passed or the channel is closed.
func sleep(duration time.Duration, until <-chan struct{}) {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-until:
	}
}

func closed(channel <-chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}

// poke wakes whoever waits for the channel, which holds one.
func poke(channel chan<- struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}

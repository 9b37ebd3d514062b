package dueq

// Publishing: one message, many, or a callback, all with the same options.

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"dueq.dev/go/api"
)

// PublishOption is a choice for one message: [Client.Publish], [Client.Callback] and [Message] take any number.
type PublishOption interface {
	apply(*api.PublishRequest) error
}

type option func(*api.PublishRequest)

func (o option) apply(request *api.PublishRequest) error {
	o(request)
	return nil
}

// Due says when a message is due: [Delay] or [At]. It is a [PublishOption], and what [Keyed.Reschedule] takes.
type Due struct {
	delayMs *int64
	at      *time.Time
}

func (d Due) apply(request *api.PublishRequest) error {
	switch {
	case d.delayMs != nil:
		request.SetDelayMs(*d.delayMs)
	case d.at == nil || d.at.IsZero():
		return errors.New("dueq: the time that a message is due is not set")
	default:
		request.SetDeliverAt(*d.at)
	}
	return nil
}

// Delay makes a message due so long after the server takes it; parts of a millisecond count as a whole one.
func Delay(delay time.Duration) Due {
	ms := milliseconds(delay)
	return Due{delayMs: &ms}
}

// At makes a message due at an instant; one in the past means now.
func At(instant time.Time) Due {
	return Due{at: &instant}
}

// Key gives a message a name in its topic, by which [Client.Key] finds it. One live message (delayed, ready or leased) has it; a
// second publish answers with that message and changes nothing, unless [OnDuplicate] says otherwise.
func Key(key string) PublishOption {
	return option(func(r *api.PublishRequest) { r.SetKey(key) })
}

// Debounce has one message in place of many: each publish of the key makes it due so long from now, with the new content, until it is
// leased. It is due no later than maxWait after its first publish; 0: however long that takes. Not with [Delay], [At], [Key],
// [OnDuplicate] or [Idempotency], as [Throttle].
func Debounce(key string, delay, maxWait time.Duration) PublishOption {
	return option(func(r *api.PublishRequest) {
		debounce := api.DebounceRequest{Key: key, DelayMs: milliseconds(delay)}
		if maxWait > 0 {
			debounce.SetMaxWaitMs(milliseconds(maxWait))
		}
		r.SetDebounce(debounce)
	})
}

// Throttle publishes at most one message per interval: the first at once, and the latest content of the others at the end of the
// interval, where the next one begins.
func Throttle(key string, every time.Duration) PublishOption {
	return option(func(r *api.PublishRequest) {
		r.SetThrottle(api.ThrottleRequest{Key: key, EveryMs: milliseconds(every)})
	})
}

// Once publishes one message: for so long, whatever else is published with the key gets the first answer. Not with [Key],
// [OnDuplicate] or [Idempotency].
func Once(key string, lasting time.Duration) PublishOption {
	return option(func(r *api.PublishRequest) {
		r.SetOnce(api.OnceRequest{Key: key, ForMs: milliseconds(lasting)})
	})
}

// Group makes a message one of a group: those are leased in the order in which they were published.
func Group(group string) PublishOption {
	return option(func(r *api.PublishRequest) { r.SetGroup(group) })
}

// What [OnDuplicate] takes.
const (
	Return  = api.OnDuplicateReturn  // answer with the message that is there
	Reject  = api.OnDuplicateReject  // refuse with the code duplicate_key
	Replace = api.OnDuplicateReplace // give the message that is there the new content and due time
)

// OnDuplicate says what happens if a live message has the key: [Return] (the default), [Reject] or [Replace].
func OnDuplicate(what api.OnDuplicate) PublishOption {
	return option(func(r *api.PublishRequest) { r.SetOnDuplicate(what) })
}

// Idempotency makes publishes with the same key one: for a time (the topic's idempotency_window_ms, 10 minutes by default) the
// first answer is repeated, whatever became of its message. Without it each publish has a random one, so that retries are safe.
func Idempotency(key string) PublishOption {
	return option(func(r *api.PublishRequest) { r.SetIdempotencyKey(key) })
}

// Priority is 0 (the default) to 255; among messages that are due, higher goes first.
func Priority(priority int) PublishOption {
	return option(func(r *api.PublishRequest) { r.SetPriority(int64(priority)) })
}

// TTL has a message expire so long after it first fell due; the topic's unless given.
func TTL(ttl time.Duration) PublishOption {
	return option(func(r *api.PublishRequest) { r.SetTTLMs(milliseconds(ttl)) })
}

// MaxAttempts is how often a message is tried before it is dead; the topic's unless given.
func MaxAttempts(attempts int) PublishOption {
	return option(func(r *api.PublishRequest) { r.SetMaxAttempts(int64(attempts)) })
}

// Header adds a header, which comes with the lease or is sent with the callback.
func Header(name, value string) PublishOption {
	return option(func(r *api.PublishRequest) {
		if r.Headers == nil {
			r.Headers = map[string]string{}
		}
		r.Headers[name] = value
	})
}

// ContentType is the media type of a payload of bytes; application/octet-stream unless given.
func ContentType(mediaType string) PublishOption {
	return option(func(r *api.PublishRequest) { r.SetContentType(mediaType) })
}

// OnDone says where to publish what came of the message: its URL or its topic is set; the topic's unless given.
func OnDone(to api.CompletionRequest) PublishOption {
	return option(func(r *api.PublishRequest) { r.SetOnDone(to) })
}

// OnDead says where to publish that the message died; the topic's unless given.
func OnDead(to api.CompletionRequest) PublishOption {
	return option(func(r *api.PublishRequest) { r.SetOnDead(to) })
}

// CallTo is the URL that a message of a pushed topic is sent to, in place of the topic's.
func CallTo(url string) PublishOption {
	return option(func(r *api.PublishRequest) { callbackOf(r).SetURL(url) })
}

// CallMethod is the HTTP method of a callback; POST unless given.
func CallMethod(method string) PublishOption {
	return option(func(r *api.PublishRequest) { callbackOf(r).SetMethod(api.CallMethod(method)) })
}

// CallTimeout is how long a callback may take; 15 s unless given.
func CallTimeout(timeout time.Duration) PublishOption {
	return option(func(r *api.PublishRequest) { callbackOf(r).SetTimeoutMs(milliseconds(timeout)) })
}

// CallRetry is which failures of a callback are retried; all except for 410 unless given.
func CallRetry(rules api.RetryRequest) PublishOption {
	return option(func(r *api.PublishRequest) { callbackOf(r).SetRetry(rules) })
}

// CallAuth is how a callback proves who is calling, in place of a header authorization.
func CallAuth(auth api.AuthRequest) PublishOption {
	return option(func(r *api.PublishRequest) { callbackOf(r).SetAuth(auth) })
}

// CallClientCert names the server's client certificate that a callback is made with.
func CallClientCert(name string) PublishOption {
	return option(func(r *api.PublishRequest) { callbackOf(r).SetClientCert(name) })
}

// CallConnectTimeout is how much of a callback's time connecting may take, TLS included; unless given 5 s, and 10 s with TLS.
func CallConnectTimeout(timeout time.Duration) PublishOption {
	return option(func(r *api.PublishRequest) { callbackOf(r).SetConnectTimeoutMs(milliseconds(timeout)) })
}

// With sets what no other option does, such as the backoff:
//
//	dueq.With(func(r *api.PublishRequest) { r.SetBackoff(backoff) })
func With(change func(*api.PublishRequest)) PublishOption {
	return option(change)
}

func callbackOf(request *api.PublishRequest) *api.CallbackRequest {
	if request.Callback.Get() == nil {
		request.SetCallback(api.CallbackRequest{})
	}
	return request.Callback.Get()
}

// Publish publishes a message. Its payload is whatever encoding/json makes of the value; a []byte is published as bytes, and
// [JSON] as it is.
//
//	client.Publish(ctx, "orders", order, dueq.Delay(30*time.Minute), dueq.Key("order/42"))
func (c *Client) Publish(ctx context.Context, topic string, payload any, options ...PublishOption) (*PublishedMessage, error) {
	request, err := c.requestOf(ctx, payload, options)
	if err != nil {
		return nil, err
	}
	published, _, err := c.API.Messages.PublishMessage(c.repeating(ctx, *request), topic).PublishRequest(*request).Execute()
	return published, err
}

// Draft is a message for [Client.PublishBatch].
type Draft struct {
	// Payload is as in [Client.Publish].
	Payload any
	// Options are as in [Client.Publish].
	Options []PublishOption
}

// Message makes a [Draft].
func Message(payload any, options ...PublishOption) Draft {
	return Draft{Payload: payload, Options: options}
}

// Results are what became of each [Draft], in order: its Status is "ok", and Message set, or the code that a single publish would
// be refused with.
type Results []api.PublishResult

// Err is nil if every message was published, and otherwise names those that were not.
func (r Results) Err() error {
	var refused []error
	for i, result := range r {
		if result.Status != "ok" {
			refused = append(refused, fmt.Errorf("dueq: messages[%d]: %s", i, result.Status))
		}
	}
	return errors.Join(refused...)
}

// PublishBatch publishes up to 1000 messages by one request. Its error says that this failed as a whole; what became of each
// message is in the results, and [Results.Err] sums it up.
//
//	results, err := client.PublishBatch(ctx, "orders", dueq.Message(first), dueq.Message(second, dueq.Delay(time.Hour)))
func (c *Client) PublishBatch(ctx context.Context, topic string, messages ...Draft) (Results, error) {
	results := make(Results, len(messages))
	requests := make([]api.PublishRequest, len(messages))
	left := make([]int, len(messages)) // the indexes of those to be sent
	for i, message := range messages {
		request, err := c.requestOf(ctx, message.Payload, message.Options)
		if err != nil {
			return nil, fmt.Errorf("%w (messages[%d])", err, i)
		}
		requests[i], left[i] = *request, i
	}
	repeating := c.repeating(ctx)
	for failures := 0; len(left) > 0; failures++ {
		part := make([]api.PublishRequest, len(left))
		for i, index := range left {
			part[i] = requests[index]
		}
		call := ctx
		if keyed(part) {
			call = repeating
		}
		answer, _, err := c.API.Messages.PublishBatch(call, topic).PublishBatchRequest(*api.NewPublishBatchRequest(part)).Execute()
		if err == nil && len(answer.Results) != len(part) {
			err = fmt.Errorf("dueq: %d messages had %d results", len(part), len(answer.Results))
		}
		if err != nil && failures == 0 {
			return nil, err
		}
		var again []int
		for i, index := range left {
			if err != nil { // of a repeat: what the others came to is known
				results[index].Status = "outcome_unknown"
			} else if results[index] = answer.Results[i]; repeats(requests[index]) && isPassing(results[index].Status) {
				again = append(again, index)
			}
		}
		delay := backoff(failures, nil)
		if time.Until(deadlineOf(repeating)) < delay {
			break
		}
		if left = again; len(left) > 0 {
			sleep(delay, ctx.Done())
		}
	}
	return results, nil
}

// Callback has the server send a request to a URL when it is due, and again until that answers with success. The body is the
// payload, as in [Client.Publish], but nil means none. Package [dueq.dev/go/webhooks] verifies the request where it arrives.
//
//	client.Callback(ctx, "https://example.com/hook", order, dueq.Delay(time.Hour), dueq.CallTimeout(5*time.Second))
func (c *Client) Callback(ctx context.Context, url string, payload any, options ...PublishOption) (*PublishedMessage, error) {
	r, err := c.requestOf(ctx, payload, append([]PublishOption{CallTo(url)}, options...))
	if err != nil {
		return nil, err
	}
	if payload == nil {
		r.Payload = nil
	}
	to := callbackOf(r)
	request := api.ScheduleCallbackRequest{
		URL: to.URL, Method: to.Method, TimeoutMs: to.TimeoutMs, ConnectTimeoutMs: to.ConnectTimeoutMs, Retry: to.Retry,
		Auth: to.Auth, ClientCert: to.ClientCert, Secret: to.Secret, SecretHeaders: to.SecretHeaders,
		Payload: r.Payload, PayloadBase64: r.PayloadBase64, ContentType: r.ContentType, Headers: r.Headers,
		DelayMs: r.DelayMs, DeliverAt: r.DeliverAt, Priority: r.Priority, TTLMs: r.TTLMs,
		Key: r.Key, KeyUntil: r.KeyUntil, OnDuplicate: r.OnDuplicate, IdempotencyKey: r.IdempotencyKey,
		Debounce: r.Debounce, Throttle: r.Throttle, Once: r.Once,
		Group: r.Group, MaxAttempts: r.MaxAttempts, Backoff: r.Backoff, OnDone: r.OnDone, OnDead: r.OnDead,
	}
	published, _, err := c.API.Callbacks.ScheduleCallback(c.repeating(ctx, *r)).ScheduleCallbackRequest(request).Execute()
	return published, err
}

// requestOf makes a request that is safe to repeat, if requests are to be repeated.
func (c *Client) requestOf(ctx context.Context, payload any, options []PublishOption) (*api.PublishRequest, error) {
	request, err := built(payload, options)
	if err != nil {
		return nil, err
	}
	traced(ctx, request)
	if c.retries > 0 && !repeats(*request) {
		request.SetIdempotencyKey(uuid())
	}
	return request, nil
}

// built makes a request of what the user says.
func built(payload any, options []PublishOption) (*api.PublishRequest, error) {
	request := api.NewPublishRequest()
	if bytes, ok := payload.([]byte); ok {
		request.SetPayloadBase64(base64.StdEncoding.EncodeToString(bytes))
	} else {
		encoded, err := json.Marshal(payload)
		if err != nil {
			return nil, fmt.Errorf("dueq: the payload: %w", err)
		}
		request.SetPayload(encoded)
	}
	for _, option := range options {
		if err := option.apply(request); err != nil {
			return nil, err
		}
	}
	return request, nil
}

// isPassing is whether a message of a batch may be published by a repeat.
func isPassing(status string) bool {
	return status == "redis_unavailable" || status == "outcome_unknown"
}

func uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// milliseconds rounds up, so that "in a while" is never "now".
func milliseconds(duration time.Duration) int64 {
	ms := int64(duration / time.Millisecond)
	if duration%time.Millisecond > 0 {
		ms++
	}
	return ms
}

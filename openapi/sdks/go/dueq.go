// Package dueq is the client of dueq, a delay queue over HTTP: publish a message now, and have it handled when it is due.
//
// It has two halves. The typed client ([Client], and every type with an Execute method) is generated from dueq's OpenAPI
// document; [Worker] is written by hand, because leasing, extending and acknowledging are a conversation and not a call.
//
//	client := dueq.NewClient("http://127.0.0.1:8080")
//	client.Publish(ctx, "orders", order, dueq.Delay(30*time.Minute))
//	err := dueq.NewWorker(client, "orders", handle).Run(ctx)
//
// Whatever the server refuses is a [*ProblemError], to be had by [errors.As]; what is wrong with the network is the error of
// net/http. Durations in requests and answers are milliseconds and end in Ms.
package dueq

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// DefaultServer is where a [Client] looks for dueq unless it is told, or DUEQ_SERVER says, otherwise.
const DefaultServer = "http://127.0.0.1:8080"

// JSON is any JSON value as it is spelled: null, 1e400 and integers of any size are kept. As a payload in a request, nil means
// "no payload" and JSON("null") the value null; in an answer nil means that the payload is bytes (PayloadBase64).
type JSON = json.RawMessage

// Client gives the whole API of one server, a field for each kind of thing. It is safe for concurrent use; make one and keep it,
// since it keeps the connections.
type Client struct {
	Messages  *MessagesAPIService
	Leases    *LeasesAPIService
	Topics    *TopicsAPIService
	Callbacks *CallbacksAPIService
	Schedules *SchedulesAPIService
	Service   *ServiceAPIService

	server string
	header http.Header
	http   *http.Client
	// That of http, unless http is the user's.
	transport http.RoundTripper
}

// ClientOption is a choice for [NewClient].
type ClientOption func(*clientSettings)

type clientSettings struct {
	key  string
	http *http.Client
}

// WithAPIKey sends the key with every request; without it, that of the environment variable DUEQ_API_KEY, if there is one.
func WithAPIKey(key string) ClientOption {
	return func(s *clientSettings) { s.key = key }
}

// WithHTTPClient makes requests by a client of your own (TLS, proxies, tracing). It should keep as many idle connections for one
// host as your workers have concurrency, and two more; and its Timeout should be none or well above the longest long poll.
func WithHTTPClient(client *http.Client) ClientOption {
	return func(s *clientSettings) { s.http = client }
}

// NewClient makes a client of the server at a URL; of that in the environment variable DUEQ_SERVER where it is empty, or else of
// [DefaultServer]. Nothing is sent yet: that a URL is wrong shows with the first request.
func NewClient(server string, options ...ClientOption) *Client {
	if server == "" {
		server = os.Getenv("DUEQ_SERVER")
	}
	if server == "" {
		server = DefaultServer
	}
	settings := clientSettings{key: os.Getenv("DUEQ_API_KEY")}
	for _, option := range options {
		option(&settings)
	}
	client := &Client{server: strings.TrimRight(server, "/"), header: http.Header{}, http: settings.http}
	if client.http == nil {
		client.transport = newTransport()
		client.http = &http.Client{Transport: client.transport}
	}
	client.header.Set("User-Agent", "dueq-go/"+Version)
	client.header.Set("Content-Type", "application/json")

	configuration := NewConfiguration()
	configuration.UserAgent = client.header.Get("User-Agent")
	configuration.Servers = ServerConfigurations{{URL: client.server}}
	configuration.HTTPClient = refusing(client.http)
	if settings.key != "" {
		client.header.Set("Authorization", "Bearer "+settings.key)
		configuration.AddDefaultHeader("Authorization", "Bearer "+settings.key)
	}
	generated := NewAPIClient(configuration)
	client.Messages, client.Leases, client.Topics = generated.MessagesAPI, generated.LeasesAPI, generated.TopicsAPI
	client.Callbacks, client.Schedules, client.Service = generated.CallbacksAPI, generated.SchedulesAPI, generated.ServiceAPI
	return client
}

// HTTPClient is the client that requests are made by, without what this package adds to it.
func (c *Client) HTTPClient() *http.Client {
	return c.http
}

// newTransport is http.DefaultTransport, but keeps the connections of a worker that leases by hundreds of requests at once:
// the default keeps two, and would dial anew for nearly every request.
func newTransport() http.RoundTripper {
	dialer := net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dialer.DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		IdleConnTimeout:       90 * time.Second,
		MaxIdleConnsPerHost:   1024,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true,
	}
}

// PublishOption is a choice for [Client.Publish]: anything that a [PublishRequest] can say.
type PublishOption func(*PublishRequest)

// Delay makes a message due so long after the server takes it; parts of a millisecond count as a whole one.
func Delay(delay time.Duration) PublishOption {
	return func(request *PublishRequest) { request.SetDelayMs(milliseconds(delay)) }
}

// Publish publishes one message whose payload is whatever encoding/json makes of a value. It is short for
// Messages.PublishMessage, and for a payload of bytes use that, with SetPayloadBase64, or Messages.PublishRaw.
//
//	client.Publish(ctx, "orders", order, dueq.Delay(time.Hour), func(r *dueq.PublishRequest) { r.SetKey("order/42") })
func (c *Client) Publish(ctx context.Context, topic string, payload any, options ...PublishOption) (*PublishedMessage, error) {
	encoded, err := json.Marshal(payload)
	if err != nil {
		return nil, err
	}
	request := NewPublishRequest()
	request.SetPayload(encoded)
	for _, option := range options {
		option(request)
	}
	published, _, err := c.Messages.PublishMessage(ctx, topic).PublishRequest(*request).Execute()
	return published, err
}

// milliseconds rounds up, so that "in a while" is never "now".
func milliseconds(duration time.Duration) int64 {
	return int64((duration + time.Millisecond - 1) / time.Millisecond)
}

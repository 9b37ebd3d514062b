// Package dueq is the client of dueq, a delay queue over HTTP: publish a message now, and have it handled when it is due.
//
// Start a server (by default at http://127.0.0.1:8080), and publish:
//
//	client := dueq.NewClient("") // DUEQ_SERVER, or http://127.0.0.1:8080
//	_, err := client.Publish(ctx, "orders", Order{42}, dueq.Delay(30*time.Minute), dueq.Key("order/42"))
//
// A message that has a key can be moved or cancelled while it waits:
//
//	cancelled, err := client.Key("orders", "order/42").Cancel(ctx)
//
// A [Worker] handles messages when they are due, until its context ends:
//
//	handle := dueq.Handle(func(ctx context.Context, order Order, message *dueq.LeasedMessage) error {
//		return charge(ctx, order) // nil acknowledges; an error has the message come again
//	})
//	err := dueq.NewWorker(client, "orders", handle).Run(ctx)
//
// The methods of [Client] are what programs need every day. Every other operation is in [Client.API], generated from dueq's OpenAPI
// document; its types are in [dueq.dev/go/api]. Package [dueq.dev/go/webhooks] verifies callbacks, and [dueq.dev/go/dueqtest] is a
// dueq in memory for tests.
//
// What the server refuses is a [*ProblemError], a request without an answer a [*ConnectError] or a [*TimeoutError]; [errors.As]
// finds them.
package dueq

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
	"unicode"

	"dueq.dev/go/api"
)

// DefaultServer is where a [Client] looks for dueq unless it is told, or DUEQ_SERVER says, otherwise.
const DefaultServer = "http://127.0.0.1:8080"

// JSON is any JSON value as it is spelled. As a payload it is published as it is.
type JSON = api.JSON

// LeasedMessage is a message that a [Handler] holds: Payload with Decode and Bytes, ID, Topic, Key, Headers, Attempt (1 for the
// first), AttemptsLeft, DueAt and PublishedAt, and the lease.
type LeasedMessage = api.LeasedMessage

// PublishedMessage says what became of a publish: ID, Topic, State, DueAt, PublishedAt, and Duplicate, which is true if an
// existing message answered.
type PublishedMessage = api.PublishedMessage

// Client talks to one server; made by [NewClient]. It is safe for concurrent use: make one and keep it, since it keeps the connections.
type Client struct {
	// API is every operation of the server, as generated from its OpenAPI document.
	API API

	server           string // its URL, without a slash at the end
	base             string // the path in it
	wrong            error  // what is wrong with the URL or the API key
	timeout, retries time.Duration
	header           http.Header
	http             *http.Client
	// That of http, unless http is a copy of the user's.
	transport http.RoundTripper
}

// API is the generated client, a field for each kind of thing.
type API struct {
	Messages  *api.MessagesAPIService  // publish, get, list, change, delete and redrive
	Leases    *api.LeasesAPIService    // lease, ack, nack and extend
	Topics    *api.TopicsAPIService    // configure, pause, purge, redrive and count
	Callbacks *api.CallbacksAPIService // have URLs called
	Schedules *api.SchedulesAPIService // publish again and again
	Service   *api.ServiceAPIService   // health, metrics and the OpenAPI document
}

// ClientOption is a choice for [NewClient].
type ClientOption func(*clientSettings)

type clientSettings struct {
	key              string
	http             *http.Client
	timeout, retries time.Duration
}

// WithAPIKey sends the key with every request; without it, that of the environment variable DUEQ_API_KEY, if there is one.
func WithAPIKey(key string) ClientOption {
	return func(s *clientSettings) { s.key = key }
}

// WithHTTPClient makes requests by a client of your own (TLS, proxies, tracing). It should keep as many idle connections for one
// host as your workers have concurrency, and two more; and its Timeout should be none or well above the longest long poll. It is
// copied; redirects are never followed, whatever its CheckRedirect says.
func WithHTTPClient(client *http.Client) ClientOption {
	return func(s *clientSettings) { s.http = client }
}

// WithTimeout sets how long a request may take; 30 s unless given, and 0 means no limit. A lease request that waits has its wait
// on top, and each try of a request that can be repeated has a third. A single call is limited further by its context.
func WithTimeout(timeout time.Duration) ClientOption {
	return func(s *clientSettings) { s.timeout = timeout }
}

// WithRetries sets how long, in all, a call that is safe to repeat is repeated when the server is busy or away: 30 s unless given,
// and 0 means never. Between tries are 100 ms to 5 s at random, and what the server asks for at least (Retry-After).
//
// Safe to repeat are the publishing methods of [Client], which give each message a random idempotency key unless it has one or a policy for duplicates; every
// read; deleting and changing a message; and settling a lease.
func WithRetries(deadline time.Duration) ClientOption {
	return func(s *clientSettings) { s.retries = deadline }
}

// NewClient makes a client of the server at a URL; of that in the environment variable DUEQ_SERVER where it is empty, or else of
// [DefaultServer]. Nothing is sent yet: that a URL or an API key is wrong shows with the first request.
func NewClient(server string, options ...ClientOption) *Client {
	if server == "" {
		server = os.Getenv("DUEQ_SERVER")
	}
	if server == "" {
		server = DefaultServer
	}
	settings := clientSettings{key: os.Getenv("DUEQ_API_KEY"), timeout: 30 * time.Second, retries: 30 * time.Second}
	for _, option := range options {
		option(&settings)
	}
	client := &Client{
		server: strings.TrimRight(server, "/"), header: http.Header{}, http: &http.Client{},
		timeout: settings.timeout, retries: settings.retries,
	}
	switch parsed, err := url.Parse(client.server); {
	case err != nil || parsed.Host == "" || (parsed.Scheme != "http" && parsed.Scheme != "https"):
		client.wrong = fmt.Errorf("dueq: the server is %q, and has to be a URL like %s", server, DefaultServer)
	case parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "":
		client.wrong = fmt.Errorf("dueq: the server is %q, and may have neither user, query nor fragment", parsed.Redacted())
	default:
		client.base = parsed.EscapedPath()
	}
	if settings.timeout < 0 {
		client.wrong = errors.Join(client.wrong, fmt.Errorf("dueq: the time-out is %s, and may not be negative", settings.timeout))
	}
	if strings.ContainsFunc(settings.key, unicode.IsControl) {
		client.wrong = errors.Join(client.wrong, errors.New("dueq: the API key has a line end or another control character"))
	}
	if settings.http != nil {
		*client.http = *settings.http
	} else {
		client.transport = newTransport()
		client.http.Transport = client.transport
	}
	// An API key and a message go to the server and to no other place.
	client.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client.header.Set("User-Agent", "dueq-go/"+Version)
	client.header.Set("Content-Type", "application/json")

	configuration := api.NewConfiguration()
	configuration.UserAgent = client.header.Get("User-Agent")
	configuration.Servers = api.ServerConfigurations{{URL: client.server}}
	configuration.HTTPClient = client.sending()
	if settings.key != "" {
		client.header.Set("Authorization", "Bearer "+settings.key)
		configuration.AddDefaultHeader("Authorization", "Bearer "+settings.key)
	}
	generated := api.NewAPIClient(configuration)
	client.API = API{
		Messages: generated.MessagesAPI, Leases: generated.LeasesAPI, Topics: generated.TopicsAPI,
		Callbacks: generated.CallbacksAPI, Schedules: generated.SchedulesAPI, Service: generated.ServiceAPI,
	}
	return client
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

package main

// The client against a server that cuts connections, keeps silent, and says that it is busy.

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	dueq "dueq.dev/go"
	"dueq.dev/go/api"
)

// asked is a request that a server got.
type asked struct {
	what string // method and path
	body map[string]any
	raw  string
}

// answering starts a server that answers the n-th request (from 0) as told, and gives the requests so far.
func answering(t *testing.T, answer func(n int, w http.ResponseWriter)) (url string, requests func() []asked) {
	var mu sync.Mutex
	var got []asked
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		one := asked{what: r.Method + " " + r.URL.EscapedPath(), raw: string(raw)}
		_ = json.Unmarshal(raw, &one.body)
		mu.Lock()
		n := len(got)
		got = append(got, one)
		mu.Unlock()
		answer(n, w)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []asked {
		mu.Lock()
		defer mu.Unlock()
		return append([]asked{}, got...)
	}
}

func cut() { panic(http.ErrAbortHandler) }

func sayPublished(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"id":"m1","topic":"t","state":"ready","published_at":"2026-11-21T08:16:08.912Z","duplicate":false}`)
}

func TestAServerThatNeverAnswersIsATimeout(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and nobody looks at them
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	url := "http://" + listener.Addr().String()
	for name, client := range map[string]*dueq.Client{
		"once":     dueq.NewClient(url, dueq.WithTimeout(100*time.Millisecond), dueq.WithRetries(0)),
		"repeated": dueq.NewClient(url, dueq.WithTimeout(150*time.Millisecond), dueq.WithRetries(300*time.Millisecond)),
	} {
		began := time.Now()
		_, err = client.Publish(context.Background(), "a/b", 1)
		var timeout *dueq.TimeoutError
		if !errors.As(err, &timeout) || timeout.URL != url || timeout.Operation != "POST /topics/a%2Fb/messages" {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(began); took < 100*time.Millisecond || took > 10*time.Second {
			t.Errorf("%s: it took %s", name, took)
		}
	}
	client := dueq.NewClient(url, dueq.WithTimeout(100*time.Millisecond))
	request := api.NewLeaseRequest()
	request.SetWaitMs(300)
	began := time.Now()
	if _, _, err = client.API.Leases.LeaseMessages(context.Background(), "t").LeaseRequest(*request).Execute(); time.Since(began) < 400*time.Millisecond {
		t.Errorf("a lease's wait did not count: %v after %s", err, time.Since(began))
	}

	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	began = time.Now()
	if _, err = client.Publish(ctx, "t", 1); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 10*time.Second {
		t.Errorf("%v after %s", err, time.Since(began))
	}
	ctx, cancel = context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err = client.Publish(ctx, "t", 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestAConnectionErrorNamesTheServerAndTheOperation(t *testing.T) {
	client := dueq.NewClient("http://127.0.0.1:1", dueq.WithRetries(0))
	_, err := client.Publish(context.Background(), "orders", 1)
	var connect *dueq.ConnectError
	if !errors.As(err, &connect) || connect.URL != "http://127.0.0.1:1" || connect.Operation != "POST /topics/orders/messages" {
		t.Fatal(err)
	}
	if !strings.HasPrefix(err.Error(), "dueq: POST /topics/orders/messages: cannot reach http://127.0.0.1:1: dial tcp") {
		t.Error(err)
	}
	for server, says := range map[string]string{"localhost:8080": `"localhost:8080"`, "http://me:secret@localhost": `"http://me:xxxxx@localhost"`,
		"http://localhost/?a=b": "query", "": "negative"} {
		_, err := dueq.NewClient(server, dueq.WithTimeout(-1)).Publish(context.Background(), "t", 1)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Error(err)
		}
	}
}

func TestAnAnswerOfSomethingElseIsNamed(t *testing.T) {
	url, requests := answering(t, func(_ int, w http.ResponseWriter) { _, _ = io.WriteString(w, "<html>It works!</html>") })
	client := dueq.NewClient(url)
	want := url + ` answered with "text/html; charset=utf-8" instead of JSON: is it dueq?`
	if _, err := client.Publish(context.Background(), "t", 1); err == nil || err.Error() != "dueq: POST /topics/t/messages: "+want || len(requests()) != 1 {
		t.Error(err, requests())
	}
	troubles := make(chan error, 10)
	start(t, client, func(context.Context, *dueq.LeasedMessage) error { return nil },
		dueq.WithHooks(dueq.Hooks{OnError: func(err error) {
			select {
			case troubles <- err:
			default:
			}
		}}))
	if err := <-troubles; err.Error() != "dueq: POST /topics/t/lease: "+want {
		t.Error(err)
	}
}

func TestARedirectIsARefusalAndNeverFollowed(t *testing.T) {
	ctx := context.Background()
	for _, status := range []int{301, 302, 303, 307, 308} {
		elsewhere, reached := answering(t, func(_ int, w http.ResponseWriter) { sayPublished(w) })
		url, requests := answering(t, func(_ int, w http.ResponseWriter) {
			w.Header().Set("Location", elsewhere)
			w.WriteHeader(status)
		})
		own := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return nil }}
		for name, client := range map[string]*dueq.Client{
			"default": dueq.NewClient(url, dueq.WithAPIKey("secret")),
			"own":     dueq.NewClient(url, dueq.WithAPIKey("secret"), dueq.WithHTTPClient(own)),
		} {
			_, publish := client.Publish(ctx, "t", 1)
			cancelled, cancel := client.Key("t", "k").Cancel(ctx)
			_, get := client.Key("t", "k").Get(ctx)
			work := dueq.NewWorker(client, "t", func(context.Context, *dueq.LeasedMessage) error { return nil }).Run(ctx)
			for _, err := range []error{publish, cancel, get, work} {
				var problem *dueq.ProblemError
				if !errors.As(err, &problem) || problem.Status != status || !strings.HasSuffix(err.Error(), "this one is to "+elsewhere) {
					t.Errorf("%d, %s: %v", status, name, err)
				}
			}
			if cancelled {
				t.Errorf("%d, %s: cancelled by a redirect", status, name)
			}
		}
		if len(reached()) != 0 || len(requests()) != 8 {
			t.Errorf("%d: %+v, and elsewhere %+v", status, requests(), reached())
		}
		if own.CheckRedirect(nil, nil) != nil {
			t.Error("the user's client was changed")
		}
	}
}

func TestWhatCannotGetBetterIsSaidAtOnce(t *testing.T) {
	url, requests := answering(t, func(_ int, w http.ResponseWriter) { sayPublished(w) })
	ctx, began := context.Background(), time.Now()
	handler := func(context.Context, *dueq.LeasedMessage) error { return nil }
	for _, key := range []string{"secret\n", "sec\x7fret"} {
		client := dueq.NewClient(url, dueq.WithAPIKey(key))
		_, publish := client.Publish(ctx, "t", 1)
		for _, err := range []error{publish, dueq.NewWorker(client, "t", handler).Run(ctx)} {
			if err == nil || !strings.Contains(err.Error(), "the API key has a line end") || strings.Contains(err.Error(), "ret") {
				t.Error(err)
			}
		}
	}
	client := dueq.NewClient(url)
	for _, name := range []string{"", ".", ".."} {
		_, cancel := client.Key("orders", name).Cancel(ctx)
		_, reschedule := client.Key("orders", name).Reschedule(ctx, dueq.Delay(0))
		_, publish := client.Publish(ctx, name, 1)
		work := dueq.NewWorker(client, name, handler).Run(ctx)
		for _, err := range []error{cancel, reschedule, publish, work} {
			want := `dueq: a topic, key or id cannot be "` + name + `": /topics/`
			if name == "" { // the worker, and the generated code for keys, have words of their own
				want = ""
			}
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Error(err)
			}
		}
	}
	if len(requests()) != 0 {
		t.Errorf("%+v", requests())
	}
	for _, option := range []dueq.ClientOption{dueq.WithTimeout(30 * time.Second), dueq.WithHTTPClient(http.DefaultClient)} {
		_, err := dueq.NewClient("https"+strings.TrimPrefix(url, "http"), option).Publish(ctx, "t", 1)
		var connect *dueq.ConnectError
		if !errors.As(err, &connect) || !strings.Contains(err.Error(), "cannot reach https://127.0.0.1") {
			t.Error(err)
		}
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	if _, err := client.Key("orders", "...").Cancel(ctx); err != nil || requests()[0].what != "DELETE /topics/orders/keys/..." {
		t.Error(err, requests())
	}
}

func TestAPublishIsRepeatedWithOneIdempotencyKey(t *testing.T) {
	url, requests := answering(t, func(n int, w http.ResponseWriter) {
		switch n {
		case 0:
			cut()
		case 1:
			refuse(w, 503, "outcome_unknown")
		case 2:
			w.WriteHeader(502)
		case 3: // half an answer
			w.Header().Set("Content-Length", "1000")
			sayPublished(w)
			cut()
		default:
			sayPublished(w)
		}
	})
	published, err := dueq.NewClient(url).Publish(context.Background(), "t", 1)
	if err != nil || published.ID != "m1" {
		t.Fatal(err)
	}
	keys := map[any]bool{}
	for _, request := range requests() {
		keys[request.body["idempotency_key"]] = true
	}
	if len(requests()) != 5 || len(keys) != 1 || keys[nil] {
		t.Errorf("%+v", requests())
	}
}

func TestAnAnswerThatWasCutIsABrokenConnectionAndRepeated(t *testing.T) {
	for _, cut := range []string{"", `{"id":"m1","topic":`} { // by something that does not say how long it would have been
		url, requests := answering(t, func(n int, w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			if n > 1 {
				sayPublished(w)
				return
			}
			_, _ = io.WriteString(w, cut)
		})
		var connect *dueq.ConnectError
		if _, err := dueq.NewClient(url, dueq.WithRetries(0)).Publish(context.Background(), "t", 1); !errors.As(err, &connect) {
			t.Error(err)
		}
		if published, err := dueq.NewClient(url).Publish(context.Background(), "t", 1); err != nil || published.ID != "m1" || len(requests()) != 3 {
			t.Fatal(err, published, requests())
		}
	}
}

func TestWhatIsNotSafeToRepeatIsNotRepeated(t *testing.T) {
	url, requests := answering(t, func(int, http.ResponseWriter) { cut() })
	client := dueq.NewClient(url)
	ctx := context.Background()
	request := api.NewPublishRequest()
	request.SetPayload(dueq.JSON("1"))
	_, _, publish := client.API.Messages.PublishMessage(ctx, "t").PublishRequest(*request).Execute()
	_, redrive := client.Redrive(ctx, "t")
	_, _, update := client.API.Topics.UpdateTopic(ctx, "t").UpdateTopicRequest(*api.NewUpdateTopicRequest()).Execute()
	_, off := dueq.NewClient(url, dueq.WithRetries(0)).Publish(ctx, "t", 1)
	for _, err := range []error{publish, redrive, update, off} {
		var connect *dueq.ConnectError
		if !errors.As(err, &connect) {
			t.Error(err)
		}
	}
	if got := requests(); len(got) != 4 || got[3].body["idempotency_key"] != nil {
		t.Errorf("%+v", got)
	}

	refused, requests := answering(t, func(_ int, w http.ResponseWriter) { refuse(w, 409, "duplicate_key") })
	_, err := dueq.NewClient(refused).Publish(ctx, "t", 1)
	if dueq.Code(err) != "duplicate_key" || len(requests()) != 1 || err.Error() != "dueq: 409 duplicate_key: f: bad (request r1)" {
		t.Error(err, requests())
	}
	plain, _ := answering(t, func(_ int, w http.ResponseWriter) {
		w.WriteHeader(404)
		_, _ = io.WriteString(w, `{"code": "topic_not_found", "detail": "there is no topic t"}`)
	})
	if _, err := dueq.NewClient(plain).Publish(ctx, "t", 1); err == nil || err.Error() != "dueq: 404 topic_not_found: there is no topic t" {
		t.Error(err)
	}
	empty, _ := answering(t, func(_ int, w http.ResponseWriter) { w.WriteHeader(404) })
	if _, err := dueq.NewClient(empty).Key("t", "a/b").Cancel(ctx); err == nil || err.Error() != "dueq: 404 Not Found" {
		t.Error(err)
	}
}

func TestACancelWhoseAnswerWasLostIsDone(t *testing.T) {
	url, requests := answering(t, func(n int, w http.ResponseWriter) {
		if n == 0 {
			cut()
		}
		refuse(w, 404, "message_not_found")
	})
	client, ctx := dueq.NewClient(url), context.Background()
	for i, want := range []bool{true, false} {
		if cancelled, err := client.Key("t", "order/1").Cancel(ctx); err != nil || cancelled != want {
			t.Errorf("cancel %d: %v %v", i, cancelled, err)
		}
	}
	moved, err := client.Key("t", "order/1").Reschedule(ctx, dueq.At(time.Now()))
	if err != nil || moved || requests()[0].what != "DELETE /topics/t/keys/order%2F1" {
		t.Errorf("%v %v %+v", moved, err, requests())
	}
	if _, err := client.Key("t", "order/1").Reschedule(ctx, dueq.At(time.Time{})); err == nil || len(requests()) != 4 {
		t.Error("a time that is not set was sent")
	}
	if _, err := client.API.Leases.AckMessage(ctx, "m").AckRequest(*api.NewAckRequest("token")).Execute(); dueq.Code(err) != "message_not_found" {
		t.Error(err)
	}
}

func TestOnlyTheOpenItemsOfABatchAreRepeated(t *testing.T) {
	url, requests := answering(t, func(n int, w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, []string{
			`{"results":[{"status":"ok"},{"status":"redis_unavailable"},{"status":"duplicate_key"},{"status":"outcome_unknown"}]}`,
			`{"results":[{"status":"ok"},{"status":"redis_unavailable"}]}`,
			`{"results":[{"status":"topic_full"}]}`,
		}[n])
	})
	results, err := dueq.NewClient(url).PublishBatch(context.Background(), "t",
		dueq.Message(0), dueq.Message(1), dueq.Message(2), dueq.Message(3, dueq.Idempotency("mine")))
	var statuses []string
	for _, result := range results {
		statuses = append(statuses, result.Status)
	}
	if got := strings.Join(statuses, " "); err != nil || got != "ok ok duplicate_key topic_full" {
		t.Fatal(got, err)
	}
	item := func(request, i int) map[string]any {
		return requests()[request].body["messages"].([]any)[i].(map[string]any)
	}
	if item(0, 1)["idempotency_key"] != item(1, 0)["idempotency_key"] || item(0, 0)["idempotency_key"] == item(0, 1)["idempotency_key"] ||
		item(2, 0)["idempotency_key"] != "mine" || item(2, 0)["payload"] != 3.0 {
		t.Errorf("%+v", requests())
	}
	if results, err := dueq.NewClient(url).PublishBatch(context.Background(), "t"); len(results) != 0 || err != nil || len(requests()) != 3 {
		t.Error("an empty batch was sent")
	}
}

func TestAMessageOfAGroupIsRepeatedWithItsKeyToo(t *testing.T) {
	ctx := context.Background()
	url, requests := answering(t, func(n int, w http.ResponseWriter) {
		switch n {
		case 1:
			sayPublished(w)
		case 2:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"results":[{"status":"outcome_unknown"},{"status":"ok"}]}`)
		case 3:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"results":[{"status":"ok"}]}`)
		default:
			refuse(w, 503, "outcome_unknown")
		}
	})
	client := dueq.NewClient(url)
	if _, err := client.Publish(ctx, "t", 1, dueq.Group("g")); err != nil || len(requests()) != 2 {
		t.Fatal(err, requests())
	}
	results, err := client.PublishBatch(ctx, "t", dueq.Message(1, dueq.Group("g")), dueq.Message(2))
	if err != nil || results[0].Status != "ok" || results[1].Status != "ok" || len(requests()) != 4 {
		t.Fatal(results, err, requests())
	}
	first, again := requests()[0].body, requests()[1].body
	if first["group"] != "g" || first["idempotency_key"] == nil || first["idempotency_key"] != again["idempotency_key"] {
		t.Errorf("%+v %+v", first, again)
	}
}

func TestOptionsSayWhatTheyMean(t *testing.T) {
	url, requests := answering(t, func(_ int, w http.ResponseWriter) { sayPublished(w) })
	client, ctx := dueq.NewClient(url), context.Background()
	instant := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	calls := []func() (*dueq.PublishedMessage, error){
		func() (*dueq.PublishedMessage, error) {
			return client.Publish(ctx, "t", []byte{0, 255}, dueq.Delay(1500*time.Microsecond), dueq.Key("k"), dueq.OnDuplicate(dueq.Replace),
				dueq.Priority(7), dueq.TTL(time.Second), dueq.MaxAttempts(3), dueq.Header("a", "b"), dueq.Header("c", "d"),
				dueq.ContentType("image/png"), dueq.Idempotency("i"), dueq.With(func(r *api.PublishRequest) { r.SetKeyUntil(api.KeyUntilGranted) }))
		},
		func() (*dueq.PublishedMessage, error) {
			return client.Callback(ctx, "http://example.com", nil, dueq.At(instant), dueq.CallMethod("PUT"), dueq.CallTimeout(time.Second),
				dueq.Idempotency("i"), dueq.Key("k"))
		},
	}
	for _, call := range calls {
		if _, err := call(); err != nil {
			t.Fatal(err)
		}
	}
	var want [2]map[string]any
	_ = json.Unmarshal([]byte(`{"payload_base64":"AP8=","content_type":"image/png","delay_ms":2,"key":"k","on_duplicate":"replace",
		"priority":7,"ttl_ms":1000,"max_attempts":3,"headers":{"a":"b","c":"d"},"idempotency_key":"i","key_until":"granted"}`), &want[0])
	_ = json.Unmarshal([]byte(`{"url":"http://example.com","deliver_at":"2030-01-02T03:04:05Z","method":"PUT","timeout_ms":1000,
		"idempotency_key":"i","key":"k"}`), &want[1])
	for i, request := range requests() {
		if got, _ := json.Marshal(request.body); string(got) != mustMarshal(want[i]) {
			t.Errorf("%s, and not %s", got, mustMarshal(want[i]))
		}
	}
	if _, err := client.Publish(ctx, "t", func() {}); err == nil || len(requests()) != 2 {
		t.Error("a func was published")
	}
}

func mustMarshal(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func TestIteratorsGiveEveryPageAndEndWithAnError(t *testing.T) {
	url, requests := answering(t, func(n int, w http.ResponseWriter) {
		if n == 2 || n == 4 {
			refuse(w, 404, "topic_not_found")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"items":[{"id":"a","payload":{"order":1}},{"id":"b","payload":null}],"next_cursor":"c"}`)
	})
	client := dueq.NewClient(url)
	for _, breaks := range []bool{false, true} {
		count := 0
		var ended error
		for message, err := range client.Dead(context.Background(), "t") {
			if err != nil {
				ended = err
				continue
			}
			if count++; message.ID == "b" && breaks {
				break
			}
		}
		if breaks && (count != 2 || ended != nil) || !breaks && (count != 4 || dueq.Code(ended) != "topic_not_found") {
			t.Errorf("%d items, then %v", count, ended)
		}
	}
	if len(requests()) != 4 {
		t.Errorf("%+v", requests())
	}
}

func TestABodyThatIsLeftOutIsNotSent(t *testing.T) {
	url, requests := answering(t, func(_ int, w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{}`)
	})
	client, ctx := dueq.NewClient(url), context.Background()
	_, _, redrive := client.API.Topics.RedriveTopic(ctx, "t").Execute()
	_, _, lease := client.API.Leases.LeaseMessages(ctx, "t").Execute()
	_, _, pause := client.API.Topics.PauseTopic(ctx, "t").Execute()
	_, _, resume := client.API.Topics.ResumeTopic(ctx, "t").Execute()
	if err := errors.Join(redrive, lease, pause, resume); err != nil {
		t.Error(err)
	}
	for _, request := range requests() {
		if request.raw != "" {
			t.Errorf("%+v", request)
		}
	}
}

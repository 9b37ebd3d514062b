package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	dueq "dueq.dev/go"
	"dueq.dev/go/api"
)

// start runs a worker; stop stops it and gives what Run returned.
func start(t *testing.T, client *dueq.Client, handler dueq.Handler, options ...dueq.Option) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- dueq.NewWorker(client, "t", handler, options...).Run(ctx) }()
	stop = func() error {
		cancel()
		select {
		case err := <-ended:
			ended <- err
			return err
		case <-time.After(15 * time.Second):
			t.Fatal("the worker does not stop")
			return nil
		}
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

func TestWhatAHandlerReturnsDecides(t *testing.T) {
	server := newFake(t, `"ok"`, `"fail"`, `"later"`, `"dead"`, `"panic"`, `"goexit"`, `"silent"`)
	var kinds []string // only one handler runs at a time
	stop := start(t, server.client(), func(_ context.Context, m *dueq.LeasedMessage) error {
		switch string(m.Payload) {
		case `"fail"`:
			return errors.New(strings.Repeat("ü", 2000))
		case `"later"`:
			return fmt.Errorf("wrapped: %w", dueq.RetryIn(1500*time.Millisecond, errors.New("busy")))
		case `"dead"`:
			return dueq.Dead(errors.New("no such order"))
		case `"panic"`:
			panic("oh no")
		case `"goexit"`:
			runtime.Goexit()
		case `"silent"`:
			return dueq.RetryIn(0, nil)
		}
		return nil
	}, dueq.WithConcurrency(1), dueq.WithPrefetch(7), dueq.WithHooks(dueq.Hooks{OnFailed: func(m *dueq.LeasedMessage, err error) {
		var retry *dueq.RetryError
		var dead *dueq.DeadError
		kinds = append(kinds, fmt.Sprint(errors.As(err, &retry), errors.As(err, &dead)))
	}}))
	until(t, "all settled", func() bool { acked, nacked := server.settledSoFar(); return len(acked) == 1 && len(nacked) == 6 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(kinds, ", "); got != "false false, true false, false true, false false, false false, true false" {
		t.Errorf("retry, dead: %s", got)
	}
	_, nacked := server.settledSoFar()
	fail, later, dead, panicked, gone, silent := nacked[0], nacked[1], nacked[2], nacked[3], nacked[4], nacked[5]
	if fail.Reason != strings.Repeat("ü", 1024) || fail.DelayMs != nil || fail.Dead {
		t.Errorf("fail: %+v", fail)
	}
	if later.Reason != "wrapped: busy" || *later.DelayMs != 1500 || later.Dead {
		t.Errorf("later: %+v", later)
	}
	if dead.Reason != "no such order" || dead.DelayMs != nil || !dead.Dead {
		t.Errorf("dead: %+v", dead)
	}
	if panicked.Reason != "panic: oh no" || gone.Reason == "" {
		t.Errorf("panic: %+v, goexit: %+v", panicked, gone)
	}
	if silent.Reason != "" || *silent.DelayMs != 0 {
		t.Errorf("silent: %+v", silent)
	}
}

func TestARefusalThatCannotPassEndsRun(t *testing.T) {
	server := newFake(t)
	server.instead = func(_ string, w http.ResponseWriter) bool { refuse(w, 409, "topic_is_pushed"); return true }
	handler := func(context.Context, *dueq.LeasedMessage) error { return nil }
	var problem *dueq.ProblemError
	for _, options := range [][]dueq.Option{nil, {dueq.WithUntilEmpty()}} {
		err := dueq.NewWorker(server.client(), "t", handler, options...).Run(context.Background())
		if !errors.As(err, &problem) || problem.Code != "topic_is_pushed" || problem.Errors[0].Field != "f" {
			t.Fatal(err)
		}
	}
	for what, wrong := range map[string]*dueq.Worker{
		"a prefetch of 1001": dueq.NewWorker(server.client(), "t", handler, dueq.WithPrefetch(1001)),
		"no handler":         dueq.NewWorker(server.client(), "t", nil),
		"no topic":           dueq.NewWorker(server.client(), "", handler),
		"no URL":             dueq.NewWorker(dueq.NewClient("localhost:8080"), "t", handler),
	} {
		if err := wrong.Run(context.Background()); err == nil || errors.As(err, &problem) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestAnAckWithoutAnswerIsRepeatedWithItsToken(t *testing.T) {
	server := newFake(t, "1")
	var tries atomic.Int32
	server.instead = func(kind string, w http.ResponseWriter) bool {
		if kind == "ack" && tries.Add(1) < 3 { // taken, for all the worker knows
			panic(http.ErrAbortHandler)
		}
		return false
	}
	server.status = func(string, settled) string { return "message_not_found" }
	var lost, troubles atomic.Int32
	stop := start(t, server.client(), func(context.Context, *dueq.LeasedMessage) error { time.Sleep(20 * time.Millisecond); return nil },
		dueq.WithHooks(dueq.Hooks{OnLost: func(*dueq.LeasedMessage) { lost.Add(1) }, OnError: func(error) { troubles.Add(1); panic("hook") }}),
		dueq.WithConcurrency(3)) // with fewer the ack would ride on a lease request
	until(t, "the ack", func() bool { acked, _ := server.settledSoFar(); return len(acked) == 1 })
	_ = stop()
	acked, _ := server.settledSoFar()
	if acked[0].Token != "token-1" || lost.Load() != 0 || troubles.Load() < 1 {
		t.Errorf("%+v, lost %d, errors %d", acked, lost.Load(), troubles.Load())
	}
}

func TestWhatCannotBeExtendedIsLostAndNeverAckedNorDone(t *testing.T) {
	for name, result := range map[string]error{"done": nil, "failed": errors.New("too late")} {
		t.Run(name, func(t *testing.T) { loseBoth(t, result) })
	}
}

func loseBoth(t *testing.T, result error) {
	server := newFake(t, "1", "2")
	server.leaseMs = 1000
	server.status = func(kind string, _ settled) string {
		if kind == "extend" {
			return "lease_lost"
		}
		return "ok"
	}
	var lost, began, ended atomic.Int32
	cause := make(chan error, 1)
	stop := start(t, server.client(), func(ctx context.Context, _ *dueq.LeasedMessage) error {
		began.Add(1)
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return result
	}, dueq.WithConcurrency(1), dueq.WithPrefetch(2), dueq.WithHooks(dueq.Hooks{
		OnLost:   func(*dueq.LeasedMessage) { lost.Add(1) },
		OnDone:   func(*dueq.LeasedMessage, time.Duration) { ended.Add(1) },
		OnFailed: func(*dueq.LeasedMessage, error) { ended.Add(1) },
	}))
	if err := <-cause; err != dueq.ErrLeaseLost {
		t.Errorf("the cause is %v", err)
	}
	until(t, "both lost", func() bool { return lost.Load() == 2 })
	_ = stop()
	if acked, nacked := server.settledSoFar(); len(acked)+len(nacked) != 0 || began.Load() != 1 || ended.Load() != 0 {
		t.Errorf("acked %v, nacked %v, began %d, ended %d", acked, nacked, began.Load(), ended.Load())
	}
}

func TestStoppingGivesBackWhatIsNotDone(t *testing.T) {
	server := newFake(t, "1", "2", "3")
	began := make(chan struct{})
	release := make(chan struct{})
	defer close(release)
	stop := start(t, server.client(), func(context.Context, *dueq.LeasedMessage) error {
		close(began)
		<-release // minds no context
		return nil
	}, dueq.WithConcurrency(1), dueq.WithPrefetch(3), dueq.WithStopTimeout(50*time.Millisecond))
	<-began
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	acked, nacked := server.settledSoFar()
	if len(acked) != 0 || len(nacked) != 3 {
		t.Fatalf("acked %v, nacked %v", acked, nacked)
	}
	for _, given := range nacked {
		if !given.Release {
			t.Errorf("%+v was not released", given)
		}
	}
}

func TestABusyServerIsLeftAloneForAsLongAsItSays(t *testing.T) {
	server := newFake(t, "1")
	var refused atomic.Bool
	server.instead = func(_ string, w http.ResponseWriter) bool {
		if !refused.Swap(true) {
			w.Header().Set("Retry-After", "1")
			refuse(w, 503, "redis_unavailable")
			return true
		}
		return false
	}
	began := time.Now()
	handled := make(chan time.Duration, 1)
	start(t, server.client(), func(context.Context, *dueq.LeasedMessage) error { handled <- time.Since(began); return nil })
	if took := <-handled; took < time.Second {
		t.Errorf("asked again after %s", took)
	}
}

func TestUntilEmptyAServerThatIsAwayIsWaitedForAndAcksAreTold(t *testing.T) {
	server := newFake(t, "1", "2", "3")
	var requests atomic.Int32
	server.instead = func(_ string, w http.ResponseWriter) bool {
		if requests.Add(1)%2 == 1 { // the first, and then every other
			refuse(w, 503, "redis_unavailable")
			return true
		}
		return false
	}
	handler := func(context.Context, *dueq.LeasedMessage) error { return nil }
	err := dueq.NewWorker(server.client(), "t", handler, dueq.WithUntilEmpty(), dueq.WithConcurrency(1)).Run(context.Background())
	if acked, nacked := server.settledSoFar(); err != nil || len(acked) != 3 || len(nacked) != 0 {
		t.Errorf("%v, acked %v, nacked %v", err, acked, nacked)
	}
}

func TestUntilEmptyAWorkerStopsWithItsContextToo(t *testing.T) {
	server := newFake(t, "1")
	began := make(chan struct{})
	stop := start(t, server.client(), func(ctx context.Context, _ *dueq.LeasedMessage) error {
		close(began)
		<-ctx.Done()
		return ctx.Err()
	}, dueq.WithUntilEmpty(), dueq.WithStopTimeout(50*time.Millisecond))
	<-began
	time.Sleep(400 * time.Millisecond) // an empty answer has come, and the handler still runs
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if _, nacked := server.settledSoFar(); len(nacked) != 1 || !nacked[0].Release {
		t.Errorf("%+v", nacked)
	}
}

func TestAnAnswerThatIsSaidToBeHugeIsABrokenConnection(t *testing.T) {
	server := newFake(t, "1")
	var lied atomic.Bool
	server.instead = func(_ string, w http.ResponseWriter) bool {
		if lied.Swap(true) {
			return false
		}
		connection, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_, _ = io.WriteString(connection, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9000000000000000000\r\n\r\n{}")
			_ = connection.Close()
		}
		return true
	}
	troubles := make(chan error, 10)
	stop := start(t, server.client(), func(context.Context, *dueq.LeasedMessage) error { return nil },
		dueq.WithHooks(dueq.Hooks{OnError: func(err error) { troubles <- err }}))
	until(t, "the ack", func() bool { acked, _ := server.settledSoFar(); return len(acked) == 1 })
	_ = stop()
	var connect *dueq.ConnectError
	if err := <-troubles; !errors.As(err, &connect) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}

func TestAnyPayloadAndWhatANewerServerSaysSurvive(t *testing.T) {
	const payload = `{"big":123456789012345678901234567890,"huge":1e400,"deep":[null,false,{"a":[]}]}`
	server := newFake(t, "null", payload)
	server.instead = func(kind string, w http.ResponseWriter) bool {
		if kind == "id-9" {
			_, _ = io.WriteString(w, `{"id":"id-9","state":"hibernating","mood":{},"payload":null,"events":[{"kind":"yawned"}]}`)
		}
		return kind == "id-9"
	}
	request := api.NewLeaseRequest()
	request.SetMaxMessages(2)
	leased, _, err := server.client().API.Leases.LeaseMessages(context.Background(), "t").LeaseRequest(*request).Execute()
	if err != nil || string(leased.Messages[0].Payload) != "null" || string(leased.Messages[1].Payload) != payload {
		t.Fatalf("%+v: %v", leased, err)
	}
	got, _, err := server.client().API.Messages.GetMessage(context.Background(), "id-9").Execute()
	if err != nil || got.State != "hibernating" || got.Events[0].Kind != "yawned" || string(got.Payload) != "null" {
		t.Errorf("%+v: %v", got, err)
	}
	for _, value := range []string{"null", payload} {
		publish := api.NewPublishRequest()
		publish.SetPayload(dueq.JSON(value))
		if body, err := publish.MarshalJSON(); err != nil || !strings.Contains(string(body), `"payload":`+value) {
			t.Errorf("%s: %v", body, err)
		}
	}
	if body, _ := api.NewPublishRequest().MarshalJSON(); strings.Contains(string(body), "payload") {
		t.Errorf("no payload became %s", body)
	}
}

func TestSeveralTopicsAreLeasedFromInOrder(t *testing.T) {
	server := newFake(t, `"one"`)
	stop := start(t, server.client(), func(context.Context, *dueq.LeasedMessage) error { return nil }, dueq.WithTopics("bulk", "later"))
	until(t, "the ack", func() bool { acked, _ := server.settledSoFar(); return len(acked) == 1 })
	_ = stop()
	if server.leasedFrom != "/lease t bulk later" {
		t.Error(server.leasedFrom)
	}
}

func TestATypedHandlerTakesThePayloadAndFailsForWhatItCannotDecode(t *testing.T) {
	server := newFake(t, `{"order": 42}`, `"no order"`)
	orders := make(chan int, 2)
	stop := start(t, server.client(), dueq.Handle(func(_ context.Context, payload struct{ Order int }, m *dueq.LeasedMessage) error {
		orders <- payload.Order
		return nil
	}))
	until(t, "both settled", func() bool { acked, nacked := server.settledSoFar(); return len(acked)+len(nacked) == 2 })
	_ = stop()
	acked, nacked := server.settledSoFar()
	if order := <-orders; order != 42 || len(orders) != 0 || acked[0].ID != "id-1" || nacked[0].ID != "id-2" ||
		nacked[0].Dead || nacked[0].DelayMs != nil || !strings.HasPrefix(nacked[0].Reason, "cannot decode the payload: json: ") {
		t.Errorf("%d, acked %v, nacked %v", order, acked, nacked)
	}
}

func TestWhatAHandlerPublishesBelongsToTheTraceOfItsMessage(t *testing.T) {
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	url, requests := answering(t, func(_ int, w http.ResponseWriter) { sayPublished(w) })
	client := dueq.NewClient(url)
	server := newFake(t, "1")
	server.headers = map[string]string{"traceparent": trace}
	handled := make(chan error, 1)
	start(t, server.client(), func(ctx context.Context, _ *dueq.LeasedMessage) error {
		_, first := client.Publish(ctx, "next", 1, dueq.Header("a", "b"))
		_, second := client.Publish(ctx, "next", 1, dueq.Header("Traceparent", "mine"))
		handled <- errors.Join(first, second)
		return nil
	})
	if err := <-handled; err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(requests()[0].body["headers"], requests()[1].body["headers"]); got != "map[a:b traceparent:"+trace+"] map[Traceparent:mine]" {
		t.Error(got)
	}
}

func TestMiddlewareSeesWhatHandlersReturnAndTheFirstIsOutermost(t *testing.T) {
	server := newFake(t, `"ok"`, `"fail"`, `"skip"`, `"panic"`)
	var seen []string // only one handler runs at a time
	named := func(name string) func(dueq.Handler) dueq.Handler {
		return func(next dueq.Handler) dueq.Handler {
			return func(ctx context.Context, m *dueq.LeasedMessage) (err error) {
				seen = append(seen, fmt.Sprintf("%s %s", name, m.Payload))
				defer func() { seen = append(seen, fmt.Sprintf("%s: %v", name, err)) }()
				return next(ctx, m)
			}
		}
	}
	decides := func(next dueq.Handler) dueq.Handler {
		return func(ctx context.Context, m *dueq.LeasedMessage) error {
			if string(m.Payload) == `"skip"` {
				return nil
			}
			if err := next(ctx, m); err != nil {
				return dueq.Dead(err)
			}
			return nil
		}
	}
	stop := start(t, server.client(), func(_ context.Context, m *dueq.LeasedMessage) error {
		seen = append(seen, fmt.Sprintf("handler %s", m.Payload))
		switch string(m.Payload) {
		case `"fail"`:
			return errors.New("broken")
		case `"panic"`:
			panic("oh no")
		}
		return nil
	}, dueq.WithConcurrency(1), dueq.WithMiddleware(named("outer"), named("inner")), dueq.WithMiddleware(decides))
	until(t, "all settled", func() bool { acked, nacked := server.settledSoFar(); return len(acked) == 2 && len(nacked) == 2 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	want := `outer "ok", inner "ok", handler "ok", inner: <nil>, outer: <nil>, ` +
		`outer "fail", inner "fail", handler "fail", inner: broken, outer: broken, ` +
		`outer "skip", inner "skip", inner: <nil>, outer: <nil>, ` +
		`outer "panic", inner "panic", handler "panic", inner: <nil>, outer: <nil>`
	if got := strings.Join(seen, ", "); got != want {
		t.Errorf("%s\nand not\n%s", got, want)
	}
	acked, nacked := server.settledSoFar()
	if acked[0].ID != "id-1" || acked[1].ID != "id-3" || !nacked[0].Dead || nacked[0].Reason != "broken" || nacked[1].Reason != "panic: oh no" {
		t.Errorf("acked %+v, nacked %+v", acked, nacked)
	}
	for what, middleware := range map[string]func(dueq.Handler) dueq.Handler{
		"nil": nil, "no handler": func(dueq.Handler) dueq.Handler { return nil },
	} {
		handler := func(context.Context, *dueq.LeasedMessage) error { return nil }
		err := dueq.NewWorker(server.client(), "t", handler, dueq.WithMiddleware(middleware)).Run(context.Background())
		if err == nil || !strings.Contains(err.Error(), "middleware") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

package main

// The dueq in memory that users' tests run against.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	dueq "dueq.dev/go"
	"dueq.dev/go/api"
	"dueq.dev/go/dueqtest"
)

func TestInMemoryAMessageIsDueWhenTheClockSaysSo(t *testing.T) {
	server := dueqtest.NewServer(t)
	client, ctx := server.Client(), context.Background()
	for order, due := range map[int]time.Duration{1: 30 * time.Minute, 2: time.Hour} {
		if _, err := client.Publish(ctx, "t", order, dueq.Delay(due), dueq.Key(fmt.Sprint(order))); err != nil {
			t.Fatal(err)
		}
	}
	handled := make(chan string, 10)
	stop := start(t, client, func(_ context.Context, m *dueq.LeasedMessage) error {
		handled <- string(m.Payload)
		return nil
	})
	server.Advance(29 * time.Minute)
	if messages := server.Messages("t"); len(messages) != 2 || messages[0].State != api.StateDelayed {
		t.Fatalf("%+v", messages)
	}
	server.Advance(time.Minute)
	if first := <-handled; first != "1" {
		t.Error(first)
	}
	if moved, err := client.Key("t", "2").Reschedule(ctx, dueq.Delay(0)); !moved || err != nil || <-handled != "2" {
		t.Error(moved, err)
	}
	until(t, "both are gone", func() bool { return len(server.Messages("t")) == 0 })
	if cancelled, err := client.Key("t", "2").Cancel(ctx); cancelled || err != nil || stop() != nil {
		t.Error(cancelled, err)
	}
}

func TestInMemoryRepeatsBecomeOneMessageAsTheirPolicySays(t *testing.T) {
	server := dueqtest.NewServer(t)
	client, ctx := server.Client(), context.Background()
	publish := func(payload any, option dueq.PublishOption) *dueq.PublishedMessage {
		published, err := client.Publish(ctx, "t", payload, option)
		if err != nil {
			t.Fatal(err)
		}
		return published
	}
	for n := range 3 {
		publish(n, dueq.Debounce("d", time.Hour, 2*time.Hour))
		publish(10+n, dueq.Throttle("k", time.Hour))
		publish(20+n, dueq.Once("o", time.Hour))
	}
	var payloads []string
	for _, m := range server.Messages("t") {
		payloads = append(payloads, string(m.Payload))
	}
	if got := strings.Join(payloads, " "); got != "2 10 20 12" {
		t.Error(got)
	}
	server.Advance(time.Hour)
	last := publish(3, dueq.Debounce("d", 5*time.Hour, 2*time.Hour))
	if !last.DueAt.Equal(last.PublishedAt.Add(2 * time.Hour)) {
		t.Errorf("%+v", last)
	}
	if publish(4, dueq.Once("o", time.Hour)).Duplicate || publish(5, dueq.Throttle("k", time.Hour)).Duplicate {
		t.Error("their time is over")
	}
	if _, err := client.Publish(ctx, "t", 1, dueq.Key("a"), dueq.Once("o", time.Hour)); err == nil {
		t.Error("a key and a policy")
	}
}

func TestInMemoryHandlersFailAsTheyDoWithDueq(t *testing.T) {
	server := dueqtest.NewServer(t)
	client, ctx := server.Client(), context.Background()
	batch, err := client.PublishBatch(ctx, "t", dueq.Message("later"), dueq.Message("dead"), dueq.Message("poor", dueq.MaxAttempts(1)),
		dueq.Message("first", dueq.Priority(9)))
	if err := errors.Join(err, batch.Err()); err != nil {
		t.Fatal(err)
	}
	tries := make(chan string, 10)
	start(t, client, func(_ context.Context, m *dueq.LeasedMessage) error {
		tries <- fmt.Sprintf("%s %d", m.Payload, m.Attempt)
		switch string(m.Payload) {
		case `"later"`:
			if m.Attempt == 1 {
				return dueq.RetryIn(time.Hour, errors.New("busy"))
			}
		case `"dead"`:
			return dueq.Dead(errors.New("no such order"))
		case `"poor"`:
			return errors.New("failed")
		}
		return nil
	}, dueq.WithConcurrency(1), dueq.WithHooks(dueq.Hooks{OnFailed: func(*dueq.LeasedMessage, error) {}}))
	states := func() (states string) {
		for _, m := range server.Messages("t") {
			states += fmt.Sprintf("%s %s %s, ", m.Payload, m.State, m.GetLastError())
		}
		return states
	}
	const failed = `"later" delayed busy, "dead" dead no such order, "poor" dead failed, `
	until(t, failed, func() bool { return states() == failed })
	server.Advance(time.Hour)
	until(t, "the last attempt", func() bool { return strings.Count(states(), ",") == 2 })
	for _, want := range []string{`"first" 1`, `"later" 1`, `"dead" 1`, `"poor" 1`, `"later" 2`} {
		if got := <-tries; got != want {
			t.Errorf("%s, and not %s", got, want)
		}
	}

	var dead []string
	for m, err := range client.Dead(ctx, "t") {
		if err != nil {
			t.Fatal(err)
		}
		dead = append(dead, string(m.Payload))
	}
	redriven, err := client.Redrive(ctx, "t", dueq.Max(1))
	if strings.Join(dead, " ") != `"dead" "poor"` || redriven != 1 || err != nil || <-tries != `"dead" 2` {
		t.Error(dead, redriven, err)
	}
}

func TestUntilEmptyAWorkerHandlesAllThatIsDueAndReturns(t *testing.T) {
	server := dueqtest.NewServer(t)
	client, ctx := server.Client(), context.Background()
	var drafts []dueq.Draft
	for n := range 100 {
		drafts = append(drafts, dueq.Message(n))
	}
	batch, err := client.PublishBatch(ctx, "t", append(drafts, dueq.Message(1000, dueq.Delay(time.Hour)))...)
	if err := errors.Join(err, batch.Err()); err != nil {
		t.Fatal(err)
	}
	for _, options := range [][]dueq.Option{
		{dueq.WithConcurrency(3), dueq.WithPrefetch(7)}, {dueq.WithConcurrency(8)}, {dueq.WithConcurrency(1)},
	} {
		handled := make(chan int, 1000)
		handle := dueq.Handle(func(ctx context.Context, n int, m *dueq.LeasedMessage) error {
			handled <- n
			switch {
			case n%10 == 0 && m.Attempt%3 != 0: // when the others are done already, and nothing is ready
				time.Sleep(20 * time.Millisecond)
				return dueq.RetryIn(0, nil)
			case n >= 103:
				return dueq.Dead(nil)
			case n >= 97:
				time.Sleep(20 * time.Millisecond)
				_, err := client.Publish(ctx, "t", n+3)
				return err
			}
			return nil
		})
		options = append(options, dueq.WithUntilEmpty(), dueq.WithHooks(dueq.Hooks{OnFailed: func(*dueq.LeasedMessage, error) {}}))
		if err := dueq.NewWorker(client, "t", handle, options...).Run(ctx); err != nil {
			t.Fatal(err)
		}
		var states []string
		for _, m := range server.Messages("t") {
			states = append(states, fmt.Sprintf("%s %s", m.Payload, m.State))
		}
		slices.Sort(states)
		if got := strings.Join(states, ", "); got != "1000 delayed, 103 dead, 104 dead, 105 dead" {
			t.Error(got)
		}
		// Each once, and a tenth of the first hundred, and 100, three times.
		if len(handled) != 106+2*11 {
			t.Errorf("%d were handled", len(handled))
		}
		if _, err := client.Redrive(ctx, "t"); err != nil {
			t.Fatal(err)
		}
		cleared := dueq.NewWorker(client, "t", func(context.Context, *dueq.LeasedMessage) error { return nil }, dueq.WithUntilEmpty())
		if err := cleared.Run(ctx); err != nil || len(server.Messages("t")) != 1 {
			t.Fatal(err, server.Messages("t"))
		}
		if batch, err = client.PublishBatch(ctx, "t", drafts...); errors.Join(err, batch.Err()) != nil {
			t.Fatal(err, batch.Err())
		}
	}
}

func TestUntilEmptyAWorkerOfNothingReturnsAtOnce(t *testing.T) {
	server := dueqtest.NewServer(t)
	handle := func(context.Context, *dueq.LeasedMessage) error { return nil }
	if _, err := server.Client().Publish(context.Background(), "later", 1, dueq.Delay(time.Hour)); err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{"missing", "later"} {
		began := time.Now()
		err := dueq.NewWorker(server.Client(), topic, handle, dueq.WithUntilEmpty(), dueq.WithTopics("another")).Run(context.Background())
		if took := time.Since(began); err != nil || took > 5*time.Second {
			t.Errorf("%s: %v after %s", topic, err, took)
		}
	}
}

// The steps that dueqtest does not take as dueq does: it has no configuration, schedules or callbacks.
var notInMemory = []string{
	"configure", "reset", "pause", "list", "drop", "callback_refused", "schedule", "trigger", "payload",
	"put_schedule", "run_schedule", "delete_schedule", "put_topic", "put_group", "delete_topic",
}

func TestInMemoryTakesTheStepsThatDueqTakes(t *testing.T) {
	var said bytes.Buffer
	stdout = &said
	defer func() { stdout = os.Stdout }()
	if err := steps(context.Background(), dueqtest.NewServer(t).Client(), "T"); err != nil {
		t.Fatal(err)
	}
	wanted, err := os.ReadFile("../steps.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	got, want := strings.Split(said.String(), "\n"), strings.Split(string(wanted), "\n")
	if len(got) != len(want) {
		t.Fatalf("%d steps, and not %d", len(got)-1, len(want)-1)
	}
	var others []string
	for i := range want[:len(want)-1] {
		var line, step map[string]any
		if err := errors.Join(json.Unmarshal([]byte(got[i]), &line), json.Unmarshal([]byte(want[i]), &step)); err != nil {
			t.Fatal(got[i], err)
		}
		if !reflect.DeepEqual(line, step) {
			t.Logf("%s, and not %s", got[i], want[i])
			others = append(others, fmt.Sprint(step["step"]))
		}
	}
	if !slices.Equal(others, notInMemory) {
		t.Errorf("not taken: %q", others)
	}
}

func TestInMemoryKeysAndLeasesAreKept(t *testing.T) {
	server := dueqtest.NewServer(t)
	client, ctx := server.Client(dueq.WithRetries(0)), context.Background()
	publish := func(payload any, options ...dueq.PublishOption) (string, string) {
		published, err := client.Publish(ctx, "t", payload, options...)
		if err != nil {
			return "", dueq.Code(err)
		}
		return published.ID, fmt.Sprint(published.Duplicate)
	}
	first, _ := publish(1, dueq.Key("k"), dueq.Idempotency("i"))
	for what, c := range map[string]struct {
		payload any
		options []dueq.PublishOption
		id      string
		says    string
	}{
		"the same again":       {1, []dueq.PublishOption{dueq.Key("k"), dueq.Idempotency("i")}, first, "true"},
		"another body":         {2, []dueq.PublishOption{dueq.Key("k"), dueq.Idempotency("i")}, "", "idempotency_key_reused"},
		"the key is taken":     {2, []dueq.PublishOption{dueq.Key("k")}, first, "true"},
		"and refused":          {2, []dueq.PublishOption{dueq.Key("k"), dueq.OnDuplicate(dueq.Reject)}, "", "duplicate_key"},
		"an empty key":         {2, []dueq.PublishOption{dueq.Key("")}, "", "invalid_input"},
		"a choice without key": {2, []dueq.PublishOption{dueq.OnDuplicate(dueq.Reject)}, "", "invalid_input"},
	} {
		if id, says := publish(c.payload, c.options...); id != c.id || says != c.says {
			t.Errorf("%s: %s %s", what, id, says)
		}
	}
	if id, _ := publish(3, dueq.Key("k"), dueq.OnDuplicate(dueq.Replace)); id != first || string(server.Messages("t")[0].Payload) != "3" {
		t.Error("not replaced")
	}

	for topic, code := range map[string]string{"_t": "topic_reserved", "a b": "invalid_topic_name", "a..b": "invalid_topic_name"} {
		if _, err := client.Publish(ctx, topic, 1); dueq.Code(err) != code {
			t.Errorf("%s: %v", topic, err)
		}
	}
	leased, _, err := client.API.Leases.LeaseMessages(ctx, "t").Execute()
	if err != nil || len(leased.Messages) != 1 {
		t.Fatal(leased, err)
	}
	if _, err := client.Key("t", "k").Cancel(ctx); dueq.Code(err) != "message_leased" {
		t.Error(err)
	}
	server.Advance(31 * time.Second)
	ack := api.NewAckRequest(leased.Messages[0].LeaseToken)
	if _, err := client.API.Leases.AckMessage(ctx, first).AckRequest(*ack).Execute(); dueq.Code(err) != "lease_lost" {
		t.Error(err)
	}
	if state := server.Messages("t")[0].State; state != api.StateReady {
		t.Error(state)
	}
	if _, err := client.Callback(ctx, "http://example.com/", nil); err != nil || server.Messages("_callbacks")[0].Callback.URL != "http://example.com/" {
		t.Error(err)
	}
	var names []string
	for topic, err := range client.Topics(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, topic.Name)
	}
	if strings.Join(names, " ") != "_callbacks t" {
		t.Error(names)
	}
	soon := dueq.Message(1, dueq.Delay(time.Second)) // which is for the schedule to say
	if _, err := client.PutSchedule(ctx, "s", soon, dueq.Schedule{Topic: "t", Every: time.Minute}); err == nil || dueq.Code(err) != "" {
		t.Error(err)
	}
	if _, _, err := client.API.Schedules.ListSchedules(ctx).Execute(); dueq.Code(err) != "not_supported" {
		t.Error(err)
	}
}

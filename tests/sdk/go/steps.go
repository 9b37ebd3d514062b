package main

// The steps of tests/sdk/steps.md through the typed client.

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	dueq "dueq.dev/go"
	"dueq.dev/go/api"
)

type fields = map[string]any

// stepper carries what several steps need. A call that may not fail goes through must, which panics with its error.
type stepper struct {
	ctx    context.Context
	client *dueq.Client
	topic  string
}

func steps(ctx context.Context, client *dueq.Client, topic string) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%v", value)
		}
	}()
	s := &stepper{ctx: ctx, client: client, topic: topic}
	s.publishing()
	s.holding()
	s.changing()
	s.topics()
	s.callbacksAndSchedules()
	s.payload()
	s.ownSchedules()
	s.ownTopics()
	s.deadLetters()
	return nil
}

// take takes a step, which notes what is to be printed. A server without the operation (dueqtest) is said to be one.
func (s *stepper) take(name string, does func(step fields)) {
	step := fields{"step": name}
	defer func() {
		value := recover()
		if err, _ := value.(error); dueq.Code(err) == "not_supported" {
			step["not_supported"] = err.Error()
		} else if value != nil {
			panic(value)
		}
		sayJSON(step)
	}()
	does(step)
}

func must[T any](answer *T, _ *http.Response, err error) *T {
	if err != nil {
		panic(err)
	}
	return answer
}

func did(_ *http.Response, err error) {
	if err != nil {
		panic(err)
	}
}

// refused expects a refusal, and gives the step its status and code.
func refused(step fields, err error) *dueq.ProblemError {
	var problem *dueq.ProblemError
	switch {
	case !errors.As(err, &problem):
		step["not_refused"] = fmt.Sprint(err)
		return &dueq.ProblemError{}
	case problem.Code == "not_supported":
		panic(problem)
	}
	step["status"], step["code"] = problem.Status, problem.Code
	return problem
}

func (s *stepper) publish(request *api.PublishRequest) *dueq.PublishedMessage {
	return must(s.client.API.Messages.PublishMessage(s.ctx, s.topic).PublishRequest(*request).Execute())
}

func message(payload string) *api.PublishRequest {
	request := api.NewPublishRequest()
	request.SetPayload(dueq.JSON(payload))
	return request
}

func (s *stepper) lease(change func(*api.LeaseRequest)) *api.LeaseResponse {
	request := api.NewLeaseRequest()
	change(request)
	return must(s.client.API.Leases.LeaseMessages(s.ctx, s.topic).LeaseRequest(*request).Execute())
}

func (s *stepper) leaseOne() dueq.LeasedMessage {
	return s.lease(func(*api.LeaseRequest) {}).Messages[0]
}

func (s *stepper) ack(id, token string) error {
	_, err := s.client.API.Leases.AckMessage(s.ctx, id).AckRequest(*api.NewAckRequest(token)).Execute()
	return err
}

func (s *stepper) publishing() {
	var id string
	order := message(`{"order": 42, "items": [null, false, {"n": 1.5}], "note": "ü"}`)
	order.SetKey("order/42")
	order.SetHeaders(map[string]string{"source": "sdk"})
	order.SetPriority(7)
	s.take("publish", func(step fields) {
		published := s.publish(order)
		id = published.ID
		step["state"], step["duplicate"] = published.State, published.Duplicate
	})
	s.take("duplicate", func(step fields) {
		second := s.publish(order)
		step["duplicate"], step["same_id"] = second.Duplicate, second.ID == id
	})
	s.take("idempotent", func(step fields) {
		once := message(`"once"`)
		once.SetIdempotencyKey("once")
		first, second := s.publish(once), s.publish(once)
		step["duplicate"], step["same_id"] = second.Duplicate, second.ID == first.ID
	})
	s.take("delayed", func(step fields) {
		delayed, err := s.client.Publish(s.ctx, s.topic, nil, dueq.Delay(5*time.Second))
		did(nil, err)
		step["state"] = delayed.State
	})
	s.take("batch", func(step fields) {
		taken := message("1")
		taken.SetKey("order/42")
		taken.SetOnDuplicate(api.OnDuplicateReject)
		bytes := api.NewPublishRequest()
		bytes.SetPayloadBase64(base64.StdEncoding.EncodeToString([]byte{0x00, 0xff}))
		bytes.SetContentType("image/png")
		batch := api.NewPublishBatchRequest([]api.PublishRequest{*message("false"), *taken, *bytes})
		var statuses []string
		for _, result := range must(s.client.API.Messages.PublishBatch(s.ctx, s.topic).PublishBatchRequest(*batch).Execute()).Results {
			statuses = append(statuses, string(result.Status))
		}
		step["statuses"] = statuses
	})
	s.take("get", func(step fields) {
		got := must(s.client.API.Messages.GetMessageByKey(s.ctx, s.topic, "order/42").Execute())
		step["state"], step["attempts"], step["headers"] = got.State, got.Attempts, got.GetHeaders()
		step["priority"], step["payload"] = got.Priority, got.Payload
	})
}

func (s *stepper) holding() {
	leases := s.client.API.Leases
	var leased, again, polled dueq.LeasedMessage
	s.take("lease", func(step fields) {
		leased = s.lease(func(r *api.LeaseRequest) { r.SetMaxMessages(1); r.SetLeaseMs(30000) }).Messages[0]
		step["key"], step["attempt"], step["attempts_left"] = leased.Key, leased.Attempt, leased.AttemptsLeft
		step["headers"], step["priority"], step["payload"] = leased.Headers, leased.Priority, leased.Payload
	})
	s.take("extend", func(step fields) {
		request := api.NewExtendRequest(60000, leased.LeaseToken)
		step["lease_ms"] = must(leases.ExtendLease(s.ctx, leased.ID).ExtendRequest(*request).Execute()).LeaseMs
	})
	s.take("nack", func(step fields) {
		nack := api.NewNackRequest(leased.LeaseToken)
		nack.SetDelayMs(0)
		nack.SetReason("later")
		nacked := must(leases.NackMessage(s.ctx, leased.ID).NackRequest(*nack).Execute())
		step["state"], step["attempt"] = nacked.State, nacked.Attempt
	})
	s.take("stale", func(step fields) { refused(step, s.ack(leased.ID, leased.LeaseToken)) })
	s.take("again", func(step fields) {
		again = s.leaseOne()
		did(nil, s.ack(again.ID, again.LeaseToken))
		step["key"], step["attempt"] = again.Key, again.Attempt
	})
	s.take("gone", func(step fields) { refused(step, s.ack(again.ID, again.LeaseToken)) })
	s.take("three", func(step fields) {
		var payloads []any
		var items []api.AckBatchItem
		for _, m := range s.lease(func(r *api.LeaseRequest) { r.SetMaxMessages(10) }).Messages {
			if m.PayloadBase64 != nil {
				payloads = append(payloads, fields{"base64": *m.PayloadBase64, "content_type": m.GetContentType()})
			} else {
				payloads = append(payloads, m.Payload)
			}
			items = append(items, *api.NewAckBatchItem(m.ID, m.LeaseToken))
		}
		var acks []string
		for _, result := range must(leases.AckBatch(s.ctx).AckBatchRequest(*api.NewAckBatchRequest(items)).Execute()).Results {
			acks = append(acks, string(result.Status))
		}
		step["payloads"], step["acks"] = payloads, acks
	})
	s.take("poll", func(step fields) {
		began := time.Now()
		polled = s.lease(func(r *api.LeaseRequest) { r.SetWaitMs(20000) }).Messages[0]
		step["payload"], step["waited"] = polled.Payload, time.Since(began) >= 200*time.Millisecond
	})
	s.take("ride", func(step fields) {
		ride := s.lease(func(r *api.LeaseRequest) {
			r.SetAcks([]api.LeaseAck{*api.NewLeaseAck(polled.ID, polled.LeaseToken)})
		})
		var acks []string
		for _, outcome := range ride.Acks {
			acks = append(acks, string(outcome.Status))
		}
		step["messages"], step["acks"] = len(ride.Messages), acks
	})
}

func (s *stepper) changing() {
	messages := s.client.API.Messages
	s.take("update", func(step fields) {
		cart := message("1")
		cart.SetKey("cart")
		cart.SetDelayMs(3600000)
		s.publish(cart)
		change := api.NewUpdateMessageRequest()
		change.SetPriority(9)
		change.SetDelayMs(7200000)
		updated := must(messages.UpdateMessageByKey(s.ctx, s.topic, "cart").UpdateMessageRequest(*change).Execute())
		step["state"], step["priority"] = updated.State, updated.Priority
		step["moved"] = updated.GetDueAt().Sub(updated.PublishedAt) > 7000*time.Second
	})
	s.take("delete", func(step fields) {
		did(messages.DeleteMessageByKey(s.ctx, s.topic, "cart").Execute())
		_, _, err := messages.GetMessageByKey(s.ctx, s.topic, "cart").Execute()
		refused(step, err)
	})
	var poison dueq.LeasedMessage
	s.take("dead", func(step fields) {
		s.publish(message(`"poison"`))
		poison = s.leaseOne()
		nack := api.NewNackRequest(poison.LeaseToken)
		nack.SetDead(true)
		nack.SetReason("no such order")
		must(s.client.API.Leases.NackMessage(s.ctx, poison.ID).NackRequest(*nack).Execute())
		dead := must(messages.GetMessage(s.ctx, poison.ID).Execute())
		step["state"], step["last_error"], step["attempts"] = dead.State, dead.LastError, dead.Attempts
	})
	s.take("redrive", func(step fields) {
		step["state"] = must(messages.RedriveMessage(s.ctx, poison.ID).Execute()).State
		did(messages.DeleteMessage(s.ctx, poison.ID).Execute())
	})
}

func (s *stepper) topics() {
	topics, name := s.client.API.Topics, s.topic+"-config"
	s.take("configure", func(step fields) {
		backoff := api.NewBackoffRequest()
		backoff.SetKind(api.BackoffKindSchedule)
		backoff.SetDelaysMs([]int64{1000, 5000})
		retention := api.NewRetentionRequest()
		retention.SetAckedMs(1000)
		put := api.NewPutTopicRequest()
		put.SetLeaseMs(60000)
		put.SetMaxAttempts(3)
		put.SetBackoff(*backoff)
		put.SetRetention(*retention)
		must(topics.PutTopic(s.ctx, name).PutTopicRequest(*put).Execute())
		config := must(topics.GetTopic(s.ctx, name).Execute()).Config
		step["lease_ms"], step["max_attempts"] = config.LeaseMs, config.MaxAttempts
		step["backoff"], step["retention"] = config.Backoff, config.Retention
	})
	s.take("reset", func(step fields) {
		reset := api.NewUpdateTopicRequest()
		reset.SetMaxAttemptsNil()
		reset.SetLeaseMs(45000)
		config := must(topics.UpdateTopic(s.ctx, name).UpdateTopicRequest(*reset).Execute()).Config
		step["lease_ms"], step["max_attempts"] = config.LeaseMs, config.MaxAttempts
	})
	s.take("pause", func(step fields) {
		paused, resumed := must(topics.PauseTopic(s.ctx, name).Execute()), must(topics.ResumeTopic(s.ctx, name).Execute())
		step["paused"] = []bool{paused.Paused, resumed.Paused}
	})
	s.take("list", func(step fields) {
		names := []string{}
		for _, item := range must(topics.ListTopics(s.ctx).Prefix(name).Execute()).Items {
			names = append(names, strings.ReplaceAll(item.Name, s.topic, "T"))
		}
		step["names"] = names
	})
	s.take("drop", func(step fields) {
		did(topics.DeleteTopic(s.ctx, name).Execute())
		_, _, err := topics.GetTopic(s.ctx, name).Execute()
		refused(step, err)
	})
	s.take("refused", func(step fields) {
		both := message("1")
		both.SetDelayMs(1)
		both.SetDeliverAt(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
		_, _, err := s.client.API.Messages.PublishMessage(s.ctx, s.topic).PublishRequest(*both).Execute()
		var wrong []string
		for _, field := range refused(step, err).Errors {
			wrong = append(wrong, field.Field)
		}
		step["fields"] = wrong
	})
}

func (s *stepper) callbacksAndSchedules() {
	messages, callbacks, schedules := s.client.API.Messages, s.client.API.Callbacks, s.client.API.Schedules
	s.take("callback", func(step fields) {
		callback := api.NewScheduleCallbackRequest("https://example.com/hook")
		callback.SetPayload(dueq.JSON(`{"order": 42}`))
		callback.SetDelayMs(3600000)
		callback.SetKey(s.topic)
		scheduled := must(callbacks.ScheduleCallback(s.ctx).ScheduleCallbackRequest(*callback).Execute())
		got := must(messages.GetMessage(s.ctx, scheduled.ID).Execute())
		did(messages.DeleteMessage(s.ctx, scheduled.ID).Execute())
		step["topic"], step["state"], step["url"] = got.Topic, got.State, got.Callback.URL
	})
	s.take("callback_refused", func(step fields) {
		private := api.NewScheduleCallbackRequest("http://10.0.0.1/")
		_, _, err := callbacks.ScheduleCallback(s.ctx).ScheduleCallbackRequest(*private).Execute()
		refused(step, err)
	})
	s.take("schedule", func(step fields) {
		daily := api.NewScheduledMessageRequest()
		daily.SetPayload(dueq.JSON(`"daily"`))
		put := api.PutScheduleRequest{}
		put.SetCron("0 9 * * MON-FRI")
		put.SetTimezone("Europe/Berlin")
		put.SetTopic(s.topic + "-ticks")
		put.SetMessage(*daily)
		must(schedules.PutSchedule(s.ctx, s.topic).PutScheduleRequest(put).Execute())
		schedule := must(schedules.GetSchedule(s.ctx, s.topic).Execute())
		step["cron"], step["timezone"] = schedule.Cron, schedule.Timezone
		step["paused"], step["has_next"] = schedule.Paused, schedule.NextAt != nil
	})
	s.take("trigger", func(step fields) {
		must(schedules.TriggerSchedule(s.ctx, s.topic).Execute())
		step["paused"] = must(schedules.PauseSchedule(s.ctx, s.topic).Execute()).Paused
		did(schedules.DeleteSchedule(s.ctx, s.topic).Execute())
		_, _, err := schedules.GetSchedule(s.ctx, s.topic).Execute()
		refused(step, err)
	})
}

func (s *stepper) payload() {
	s.take("payload", func(step fields) {
		every := make([]byte, 256)
		for at := range every {
			every[at] = byte(at)
		}
		request := api.NewPublishRequest()
		request.SetPayloadBase64(base64.StdEncoding.EncodeToString(every))
		request.SetDelayMs(3600000)
		id := s.publish(request).ID
		came, _, err := s.client.API.Messages.GetMessagePayload(s.ctx, id).Execute()
		did(s.client.API.Messages.DeleteMessage(s.ctx, id).Execute())
		did(nil, err)
		step["base64"] = base64.StdEncoding.EncodeToString(came)
	})
}

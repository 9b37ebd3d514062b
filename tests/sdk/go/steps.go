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
	ctx                            context.Context
	client                         *dueq.Client
	topic                          string
	orderID, delayedID, staleToken string
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
	return nil
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
	if !errors.As(err, &problem) {
		panic(fmt.Sprintf("not refused: %v", err))
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
	order := message(`{"order": 42, "items": [null, false, {"n": 1.5}], "note": "ü"}`)
	order.SetKey("order/42")
	order.SetHeaders(map[string]string{"source": "sdk"})
	order.SetPriority(7)
	published := s.publish(order)
	s.orderID = published.Id
	sayJSON(fields{"step": "publish", "state": published.State, "duplicate": published.Duplicate})
	second := s.publish(order)
	sayJSON(fields{"step": "duplicate", "duplicate": second.Duplicate, "same_id": second.Id == s.orderID})

	once := message(`"once"`)
	once.SetIdempotencyKey("once")
	first := s.publish(once)
	second = s.publish(once)
	sayJSON(fields{"step": "idempotent", "duplicate": second.Duplicate, "same_id": second.Id == first.Id})

	delayed, err := s.client.Publish(s.ctx, s.topic, nil, dueq.Delay(1500*time.Millisecond))
	did(nil, err)
	s.delayedID = delayed.Id
	sayJSON(fields{"step": "delayed", "state": delayed.State})

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
	sayJSON(fields{"step": "batch", "statuses": statuses})

	got := must(s.client.API.Messages.GetMessageByKey(s.ctx, s.topic, "order/42").Execute())
	sayJSON(fields{"step": "get", "state": got.State, "attempts": got.Attempts, "headers": got.GetHeaders(),
		"priority": got.Priority, "payload": got.Payload})
}

func (s *stepper) holding() {
	leases := s.client.API.Leases
	leased := s.lease(func(r *api.LeaseRequest) { r.SetMaxMessages(1); r.SetLeaseMs(30000) }).Messages[0]
	s.staleToken = leased.LeaseToken
	sayJSON(fields{"step": "lease", "key": leased.Key, "attempt": leased.Attempt, "attempts_left": leased.AttemptsLeft,
		"headers": leased.Headers, "priority": leased.Priority, "payload": leased.Payload})
	extended := must(leases.ExtendLease(s.ctx, leased.Id).ExtendRequest(*api.NewExtendRequest(60000, leased.LeaseToken)).Execute())
	sayJSON(fields{"step": "extend", "lease_ms": extended.LeaseMs})
	nack := api.NewNackRequest(leased.LeaseToken)
	nack.SetDelayMs(0)
	nack.SetReason("later")
	nacked := must(leases.NackMessage(s.ctx, leased.Id).NackRequest(*nack).Execute())
	sayJSON(fields{"step": "nack", "state": nacked.State, "attempt": nacked.Attempt})
	step := fields{"step": "stale"}
	refused(step, s.ack(leased.Id, s.staleToken))
	sayJSON(step)

	again := s.leaseOne()
	did(nil, s.ack(again.Id, again.LeaseToken))
	sayJSON(fields{"step": "again", "key": again.Key, "attempt": again.Attempt})
	step = fields{"step": "gone"}
	refused(step, s.ack(again.Id, again.LeaseToken))
	sayJSON(step)

	three := s.lease(func(r *api.LeaseRequest) { r.SetMaxMessages(10) }).Messages
	var payloads []any
	var items []api.AckBatchItem
	for _, m := range three {
		if m.PayloadBase64 != nil {
			payloads = append(payloads, fields{"base64": *m.PayloadBase64, "content_type": m.GetContentType()})
		} else {
			payloads = append(payloads, m.Payload)
		}
		items = append(items, *api.NewAckBatchItem(m.Id, m.LeaseToken))
	}
	var acks []string
	for _, result := range must(leases.AckBatch(s.ctx).AckBatchRequest(*api.NewAckBatchRequest(items)).Execute()).Results {
		acks = append(acks, string(result.Status))
	}
	sayJSON(fields{"step": "three", "payloads": payloads, "acks": acks})

	began := time.Now()
	polled := s.lease(func(r *api.LeaseRequest) { r.SetWaitMs(5000) }).Messages[0]
	sayJSON(fields{"step": "poll", "payload": polled.Payload, "waited": time.Since(began) >= 200*time.Millisecond})
	ride := s.lease(func(r *api.LeaseRequest) {
		r.SetAcks([]api.LeaseAck{*api.NewLeaseAck(polled.Id, polled.LeaseToken)})
	})
	acks = nil
	for _, outcome := range ride.Acks {
		acks = append(acks, string(outcome.Status))
	}
	sayJSON(fields{"step": "ride", "messages": len(ride.Messages), "acks": acks})
}

func (s *stepper) changing() {
	messages := s.client.API.Messages
	cart := message("1")
	cart.SetKey("cart")
	cart.SetDelayMs(3600000)
	s.publish(cart)
	change := api.NewUpdateMessageRequest()
	change.SetPriority(9)
	change.SetDelayMs(7200000)
	updated := must(messages.UpdateMessageByKey(s.ctx, s.topic, "cart").UpdateMessageRequest(*change).Execute())
	sayJSON(fields{"step": "update", "state": updated.State, "priority": updated.Priority,
		"moved": updated.GetDueAt().Sub(updated.PublishedAt) > 7000*time.Second})
	did(messages.DeleteMessageByKey(s.ctx, s.topic, "cart").Execute())
	step := fields{"step": "delete"}
	_, _, err := messages.GetMessageByKey(s.ctx, s.topic, "cart").Execute()
	refused(step, err)
	sayJSON(step)

	s.publish(message(`"poison"`))
	poison := s.leaseOne()
	nack := api.NewNackRequest(poison.LeaseToken)
	nack.SetDead(true)
	nack.SetReason("no such order")
	must(s.client.API.Leases.NackMessage(s.ctx, poison.Id).NackRequest(*nack).Execute())
	dead := must(messages.GetMessage(s.ctx, poison.Id).Execute())
	sayJSON(fields{"step": "dead", "state": dead.State, "last_error": dead.LastError, "attempts": dead.Attempts})
	redriven := must(messages.RedriveMessage(s.ctx, poison.Id).Execute())
	did(messages.DeleteMessage(s.ctx, poison.Id).Execute())
	sayJSON(fields{"step": "redrive", "state": redriven.State})
}

func (s *stepper) topics() {
	topics, name := s.client.API.Topics, s.topic+"-config"
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
	sayJSON(fields{"step": "configure", "lease_ms": config.LeaseMs, "max_attempts": config.MaxAttempts,
		"backoff": config.Backoff, "retention": config.Retention})

	reset := api.NewUpdateTopicRequest()
	reset.SetMaxAttemptsNil()
	reset.SetLeaseMs(45000)
	config = must(topics.UpdateTopic(s.ctx, name).UpdateTopicRequest(*reset).Execute()).Config
	sayJSON(fields{"step": "reset", "lease_ms": config.LeaseMs, "max_attempts": config.MaxAttempts})

	paused := []bool{must(topics.PauseTopic(s.ctx, name).Execute()).Paused, must(topics.ResumeTopic(s.ctx, name).Execute()).Paused}
	sayJSON(fields{"step": "pause", "paused": paused})
	var names []string
	for _, item := range must(topics.ListTopics(s.ctx).Prefix(name).Execute()).Items {
		names = append(names, strings.ReplaceAll(item.Name, s.topic, "T"))
	}
	sayJSON(fields{"step": "list", "names": names})
	did(topics.DeleteTopic(s.ctx, name).Execute())
	step := fields{"step": "drop"}
	_, _, err := topics.GetTopic(s.ctx, name).Execute()
	refused(step, err)
	sayJSON(step)

	both := message("1")
	both.SetDelayMs(1)
	both.SetDeliverAt(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	step = fields{"step": "refused"}
	_, _, err = s.client.API.Messages.PublishMessage(s.ctx, s.topic).PublishRequest(*both).Execute()
	var wrong []string
	for _, field := range refused(step, err).Errors {
		wrong = append(wrong, field.Field)
	}
	step["fields"] = wrong
	sayJSON(step)
}

func (s *stepper) callbacksAndSchedules() {
	callback := api.NewScheduleCallbackRequest("https://example.com/hook")
	callback.SetPayload(dueq.JSON(`{"order": 42}`))
	callback.SetDelayMs(3600000)
	callback.SetKey(s.topic)
	callbacks := s.client.API.Callbacks
	scheduled := must(callbacks.ScheduleCallback(s.ctx).ScheduleCallbackRequest(*callback).Execute())
	got := must(s.client.API.Messages.GetMessage(s.ctx, scheduled.Id).Execute())
	did(s.client.API.Messages.DeleteMessage(s.ctx, scheduled.Id).Execute())
	sayJSON(fields{"step": "callback", "topic": got.Topic, "state": got.State, "url": got.Callback.Url})
	step := fields{"step": "callback_refused"}
	_, _, err := callbacks.ScheduleCallback(s.ctx).
		ScheduleCallbackRequest(*api.NewScheduleCallbackRequest("http://10.0.0.1/")).Execute()
	refused(step, err)
	sayJSON(step)

	schedules := s.client.API.Schedules
	daily := api.NewScheduledMessageRequest()
	daily.SetPayload(dueq.JSON(`"daily"`))
	put := api.PutScheduleRequest{}
	put.SetCron("0 9 * * MON-FRI")
	put.SetTimezone("Europe/Berlin")
	put.SetTopic(s.topic + "-ticks")
	put.SetMessage(*daily)
	must(schedules.PutSchedule(s.ctx, s.topic).PutScheduleRequest(put).Execute())
	schedule := must(schedules.GetSchedule(s.ctx, s.topic).Execute())
	sayJSON(fields{"step": "schedule", "cron": schedule.Cron, "timezone": schedule.Timezone, "paused": schedule.Paused,
		"has_next": schedule.NextAt != nil})
	must(schedules.TriggerSchedule(s.ctx, s.topic).Execute())
	paused := must(schedules.PauseSchedule(s.ctx, s.topic).Execute())
	did(schedules.DeleteSchedule(s.ctx, s.topic).Execute())
	step = fields{"step": "trigger", "paused": paused.Paused}
	_, _, err = schedules.GetSchedule(s.ctx, s.topic).Execute()
	refused(step, err)
	sayJSON(step)
}

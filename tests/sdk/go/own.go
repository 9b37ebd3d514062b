package main

// The steps of tests/sdk/steps.md through the methods of the client itself.

import (
	"strings"
	"time"

	dueq "dueq.dev/go"
	"dueq.dev/go/api"
)

func own[T any](answer T, err error) T {
	if err != nil {
		panic(err)
	}
	return answer
}

func (s *stepper) ownSchedules() {
	c, ctx, name := s.client, s.ctx, s.topic
	s.take("put_schedule", func(step fields) {
		daily := dueq.Message("daily", dueq.Priority(7), dueq.Header("source", "sdk"))
		own(c.PutSchedule(ctx, name, daily, dueq.Schedule{Topic: name + "-ticks", Cron: "0 9 * * MON-FRI", Timezone: "Europe/Berlin"}))
		schedule := own(c.GetSchedule(ctx, name))
		step["topic"] = strings.ReplaceAll(schedule.GetTopic(), name, "T")
		step["cron"], step["timezone"] = schedule.Cron, schedule.Timezone
		step["payload"], step["priority"], step["headers"] = schedule.Message.Payload, schedule.Message.Priority, schedule.Message.GetHeaders()
	})
	s.take("run_schedule", func(step fields) {
		listed := false
		for schedule, err := range c.ListSchedules(ctx) {
			did(nil, err)
			listed = listed || schedule.Name == name
		}
		paused := []bool{own(c.PauseSchedule(ctx, name)).Paused, own(c.ResumeSchedule(ctx, name)).Paused}
		own(c.TriggerSchedule(ctx, name))
		step["listed"], step["paused"], step["published"] = listed, paused, own(c.GetSchedule(ctx, name)).LastMessageID != nil
	})
	s.take("delete_schedule", func(step fields) {
		step["deleted"] = []bool{own(c.DeleteSchedule(ctx, name)), own(c.DeleteSchedule(ctx, name))}
		_, err := c.GetSchedule(ctx, name)
		step["there"] = dueq.Code(err) != "schedule_not_found"
	})
}

func (s *stepper) ownTopics() {
	c, ctx, name, group := s.client, s.ctx, s.topic+"-own", "customer-7"
	s.take("put_topic", func(step fields) {
		settings := api.NewPutTopicRequest()
		settings.SetMaxAttempts(3)
		settings.SetGroupOrder(api.GroupOrderFair)
		own(c.PutTopic(ctx, name, *settings))
		change := api.NewUpdateTopicRequest()
		change.SetLeaseMs(45000)
		own(c.UpdateTopic(ctx, name, *change))
		step["paused"] = []bool{own(c.PauseTopic(ctx, name)).Paused, own(c.ResumeTopic(ctx, name)).Paused}
		names := []string{}
		for topic, err := range c.ListTopics(ctx, name) {
			did(nil, err)
			names = append(names, strings.ReplaceAll(topic.Name, s.topic, "T"))
		}
		config := own(c.GetTopic(ctx, name)).Config
		step["names"], step["max_attempts"], step["lease_ms"] = names, config.MaxAttempts, config.LeaseMs
	})
	s.take("put_group", func(step fields) {
		limits := api.NewPutGroupRequest()
		limits.SetConcurrency(5)
		own(c.PutGroup(ctx, name, group, *limits))
		step["paused"] = []bool{own(c.PauseGroup(ctx, name, group)).Paused, own(c.ResumeGroup(ctx, name, group)).Paused}
		groups := []string{}
		for listed, err := range c.ListGroups(ctx, name) {
			did(nil, err)
			groups = append(groups, listed.Group)
			step["concurrency"] = listed.Concurrency
		}
		did(nil, c.DeleteGroup(ctx, name, group))
		step["groups"], step["limited"] = groups, own(c.GetGroup(ctx, name, group)).Concurrency != nil
	})
	s.take("delete_topic", func(step fields) {
		step["deleted"] = []bool{own(c.DeleteTopic(ctx, name, true)), own(c.DeleteTopic(ctx, name, false))}
		_, err := c.GetTopic(ctx, name)
		step["there"] = dueq.Code(err) != "topic_not_found"
	})
}

func (s *stepper) deadLetters() {
	c, ctx, name := s.client, s.ctx, s.topic+"-dead"
	s.take("dead_letters", func(step fields) {
		for _, payload := range []string{"first", "second", "third"} {
			own(c.Publish(ctx, name, payload))
			poison := must(c.API.Leases.LeaseMessages(ctx, name).LeaseRequest(*api.NewLeaseRequest()).Execute()).Messages[0]
			nack := api.NewNackRequest(poison.LeaseToken)
			nack.SetDead(true)
			must(c.API.Leases.NackMessage(ctx, poison.ID).NackRequest(*nack).Execute())
		}
		var dead []*api.Message
		payloads := []dueq.JSON{}
		for message, err := range c.Dead(ctx, name) {
			did(nil, err)
			dead, payloads = append(dead, message), append(payloads, message.Payload)
		}
		step["payloads"], step["redriven"] = payloads, own(c.Redrive(ctx, name, dueq.Max(2), dueq.Spread(time.Hour)))
		own(c.RedriveMessage(ctx, dead[2].ID))
		var states []api.State
		for _, message := range dead {
			states = append(states, must(c.API.Messages.GetMessage(ctx, message.ID).Execute()).State)
		}
		step["states"] = states
	})
}

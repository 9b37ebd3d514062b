package dueq

// The methods for schedules, topics and groups; messages.go has those for messages.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"time"

	"dueq.dev/go/api"
)

// Schedule says when [Client.PutSchedule] publishes, and where.
type Schedule struct {
	// Topic is where the messages go.
	Topic string
	// Callback is the URL that they are sent to, in place of a topic.
	Callback *api.CallbackRequest
	// Cron is when, such as "0 9 * * MON-FRI", in the IANA time zone Timezone, which is UTC if it is empty.
	Cron, Timezone string
	// Every is the time between two, in place of Cron.
	Every time.Duration
	// CatchUp says which ticks that were missed are made up for; if it is empty, [api.CatchUpOne].
	CatchUp api.CatchUp
}

// PutSchedule publishes a message again and again: it creates the schedule of this name, or replaces it. The message has a payload
// and options as in a batch, but for those that say when: [Delay], [At], [Debounce], [Throttle], [Once] and [Idempotency].
//
//	daily := dueq.Schedule{Topic: "reports", Cron: "0 9 * * MON-FRI", Timezone: "Europe/Berlin"}
//	client.PutSchedule(ctx, "report", dueq.Message("daily"), daily)
func (c *Client) PutSchedule(ctx context.Context, name string, message Draft, schedule Schedule) (*api.Schedule, error) {
	published, err := built(message.Payload, message.Options)
	if err != nil {
		return nil, err
	}
	scheduled, err := tick(published)
	if err != nil {
		return nil, err
	}
	request := api.PutScheduleRequest{Message: *api.NewNullableScheduledMessageRequest(scheduled)}
	if schedule.Topic != "" {
		request.SetTopic(schedule.Topic)
	}
	if schedule.Callback != nil {
		request.SetCallback(*schedule.Callback)
	}
	if schedule.Cron != "" {
		request.SetCron(schedule.Cron)
	}
	if schedule.Timezone != "" {
		request.SetTimezone(schedule.Timezone)
	}
	if schedule.Every != 0 {
		request.SetEveryMs(milliseconds(schedule.Every))
	}
	if schedule.CatchUp != "" {
		request.SetCatchUp(schedule.CatchUp)
	}
	answer, _, err := c.API.Schedules.PutSchedule(ctx, name).PutScheduleRequest(request).Execute()
	return answer, err
}

// tick is a message without what a schedule decides; that is an error, so that no option is ignored.
func tick(published *api.PublishRequest) (*api.ScheduledMessageRequest, error) {
	encoded, err := json.Marshal(published)
	if err != nil {
		return nil, fmt.Errorf("dueq: the message: %w", err)
	}
	var scheduled api.ScheduledMessageRequest
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&scheduled); err != nil {
		return nil, fmt.Errorf("dueq: the message of a schedule: %w", err)
	}
	return &scheduled, nil
}

// GetSchedule returns a schedule: what it publishes, its next tick, how the last one went. If there is none, the error's [Code] is
// "schedule_not_found".
func (c *Client) GetSchedule(ctx context.Context, name string) (*api.Schedule, error) {
	return answered(c.API.Schedules.GetSchedule(ctx, name).Execute())
}

// ListSchedules gives all schedules, ordered by name. An error ends it.
//
//	for schedule, err := range client.ListSchedules(ctx) { … }
func (c *Client) ListSchedules(ctx context.Context) iter.Seq2[*api.Schedule, error] {
	return pages(func(cursor string) (*api.ScheduleList, *http.Response, error) {
		list := c.API.Schedules.ListSchedules(ctx)
		if cursor != "" {
			list = list.Cursor(cursor)
		}
		return list.Execute()
	})
}

// PauseSchedule stops the ticks of a schedule until [Client.ResumeSchedule].
func (c *Client) PauseSchedule(ctx context.Context, name string) (*api.Schedule, error) {
	return answered(c.API.Schedules.PauseSchedule(ctx, name).Execute())
}

// ResumeSchedule has a paused schedule tick again.
func (c *Client) ResumeSchedule(ctx context.Context, name string) (*api.Schedule, error) {
	return answered(c.API.Schedules.ResumeSchedule(ctx, name).Execute())
}

// TriggerSchedule publishes the message of a schedule now, in addition to its ticks.
func (c *Client) TriggerSchedule(ctx context.Context, name string) (*api.Schedule, error) {
	return answered(c.API.Schedules.TriggerSchedule(ctx, name).Execute())
}

// DeleteSchedule deletes a schedule; it is false if there is none. What it has published stays.
func (c *Client) DeleteSchedule(ctx context.Context, name string) (bool, error) {
	_, err := c.API.Schedules.DeleteSchedule(ctx, name).Execute()
	return found(err)
}

// ListTopics is [Client.Topics], by the name that the other languages have for it.
func (c *Client) ListTopics(ctx context.Context, prefix string) iter.Seq2[*api.TopicItem, error] {
	return c.Topics(ctx, prefix)
}

// PutTopic creates a topic, or replaces its settings as a whole: what is not set takes its default.
func (c *Client) PutTopic(ctx context.Context, topic string, settings api.PutTopicRequest) (*api.Topic, error) {
	return answered(c.API.Topics.PutTopic(ctx, topic).PutTopicRequest(settings).Execute())
}

// UpdateTopic changes the settings that are set, and leaves the others; SetMaxAttemptsNil and the like reset one to its default.
func (c *Client) UpdateTopic(ctx context.Context, topic string, settings api.UpdateTopicRequest) (*api.Topic, error) {
	return answered(c.API.Topics.UpdateTopic(ctx, topic).UpdateTopicRequest(settings).Execute())
}

// GetTopic returns the settings and counts of a topic. If there is none, the error's [Code] is "topic_not_found".
func (c *Client) GetTopic(ctx context.Context, topic string) (*api.Topic, error) {
	return answered(c.API.Topics.GetTopic(ctx, topic).Execute())
}

// PauseTopic has nothing leased from a topic, and nothing sent, until [Client.ResumeTopic]. Publishing goes on.
func (c *Client) PauseTopic(ctx context.Context, topic string) (*api.Topic, error) {
	return answered(c.API.Topics.PauseTopic(ctx, topic).Execute())
}

// ResumeTopic ends the pause of a topic.
func (c *Client) ResumeTopic(ctx context.Context, topic string) (*api.Topic, error) {
	return answered(c.API.Topics.ResumeTopic(ctx, topic).Execute())
}

// DeleteTopic deletes an empty topic, or with force one with its messages; it is false if there is none.
func (c *Client) DeleteTopic(ctx context.Context, topic string, force bool) (bool, error) {
	_, err := c.API.Topics.DeleteTopic(ctx, topic).Force(force).Execute()
	return found(err)
}

// PutGroup gives one group of a topic limits of its own, in place of the topic's.
func (c *Client) PutGroup(ctx context.Context, topic, group string, limits api.PutGroupRequest) (*api.Group, error) {
	return answered(c.API.Topics.PutGroup(ctx, topic, group).PutGroupRequest(limits).Execute())
}

// GetGroup returns the limits of a group, and how many of its messages wait: zeros if there are none.
func (c *Client) GetGroup(ctx context.Context, topic, group string) (*api.Group, error) {
	return answered(c.API.Topics.GetGroup(ctx, topic, group).Execute())
}

// ListGroups gives the groups of a topic that have messages or limits of their own. An error ends it.
//
//	for group, err := range client.ListGroups(ctx, "orders") { … }
func (c *Client) ListGroups(ctx context.Context, topic string) iter.Seq2[*api.Group, error] {
	return pages(func(cursor string) (*api.GroupList, *http.Response, error) {
		list := c.API.Topics.ListGroups(ctx, topic)
		if cursor != "" {
			list = list.Cursor(cursor)
		}
		return list.Execute()
	})
}

// PauseGroup has nothing of a group leased, until [Client.ResumeGroup].
func (c *Client) PauseGroup(ctx context.Context, topic, group string) (*api.Group, error) {
	return answered(c.API.Topics.PauseGroup(ctx, topic, group).Execute())
}

// ResumeGroup ends the pause of a group.
func (c *Client) ResumeGroup(ctx context.Context, topic, group string) (*api.Group, error) {
	return answered(c.API.Topics.ResumeGroup(ctx, topic, group).Execute())
}

// DeleteGroup gives a group the topic's limits again. Its messages stay.
func (c *Client) DeleteGroup(ctx context.Context, topic, group string) error {
	_, err := c.API.Topics.DeleteGroup(ctx, topic, group).Execute()
	return err
}

// answered drops the HTTP response, of which the error says what there is to say.
func answered[T any](answer *T, _ *http.Response, err error) (*T, error) {
	return answer, err
}

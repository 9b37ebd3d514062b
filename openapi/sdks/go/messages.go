package dueq

// Looking after what is published: messages by key, dead ones, topics.

import (
	"context"
	"iter"
	"net/http"
	"time"

	"dueq.dev/go/api"
)

// Keyed is whichever live message has a key in a topic; made by [Client.Key].
type Keyed struct {
	client     *Client
	topic, key string
}

// Key names the live message that was published to the topic with [Key].
//
//	cancelled, err := client.Key("orders", "order/42").Cancel(ctx)
func (c *Client) Key(topic, key string) Keyed {
	return Keyed{client: c, topic: topic, key: key}
}

// Get returns the message. If there is none, the error's [Code] is "message_not_found".
func (k Keyed) Get(ctx context.Context) (*api.Message, error) {
	message, _, err := k.client.API.Messages.GetMessageByKey(ctx, k.topic, k.key).Execute()
	return message, err
}

// Cancel deletes the message. It is false if there is none; a message that is leased is an error ("message_leased").
func (k Keyed) Cancel(ctx context.Context) (bool, error) {
	_, err := k.client.API.Messages.DeleteMessageByKey(ctx, k.topic, k.key).Execute()
	return found(err)
}

// Reschedule changes when the message is due. It is false if there is none; a message that is leased is an error
// ("message_leased").
func (k Keyed) Reschedule(ctx context.Context, due Due) (bool, error) {
	var when api.PublishRequest
	if err := due.apply(&when); err != nil {
		return false, err
	}
	change := api.UpdateMessageRequest{DelayMs: when.DelayMs.Get(), DeliverAt: when.DeliverAt.Get()}
	_, _, err := k.client.API.Messages.UpdateMessageByKey(ctx, k.topic, k.key).UpdateMessageRequest(change).Execute()
	return found(err)
}

func found(err error) (bool, error) {
	switch Code(err) {
	case "message_not_found", "topic_not_found", "schedule_not_found":
		return false, nil
	}
	return err == nil, err
}

// Dead gives the dead messages of a topic with their payloads, those dead longest first. An error ends it.
//
//	for message, err := range client.Dead(ctx, "orders") { … }
func (c *Client) Dead(ctx context.Context, topic string) iter.Seq2[*api.Message, error] {
	return pages(func(cursor string) (*api.MessageList, *http.Response, error) {
		list := c.API.Messages.ListMessages(ctx, topic).State(api.ListedStateDead).Payload(true)
		if cursor != "" {
			list = list.Cursor(cursor)
		}
		return list.Execute()
	})
}

// Topics gives the topics whose names begin with a prefix (all, if it is empty), ordered by name. An error ends it.
//
//	for topic, err := range client.Topics(ctx, "") { … }
func (c *Client) Topics(ctx context.Context, prefix string) iter.Seq2[*api.TopicItem, error] {
	return pages(func(cursor string) (*api.TopicList, *http.Response, error) {
		list := c.API.Topics.ListTopics(ctx)
		if prefix != "" {
			list = list.Prefix(prefix)
		}
		if cursor != "" {
			list = list.Cursor(cursor)
		}
		return list.Execute()
	})
}

// listed is a page as the generated client has it.
type listed[T any] interface {
	GetItems() []T
	GetNextCursor() string
}

func pages[T any, P listed[T]](read func(cursor string) (P, *http.Response, error)) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for cursor, first := "", true; first || cursor != ""; first = false {
			page, _, err := read(cursor)
			if err != nil {
				yield(nil, err)
				return
			}
			items := page.GetItems()
			for i := range items {
				if !yield(&items[i], nil) {
					return
				}
			}
			cursor = page.GetNextCursor()
		}
	}
}

// RedriveOption is a choice for [Client.Redrive].
type RedriveOption func(*api.RedriveRequest)

// Max redrives so many messages at most; 10,000 unless given.
func Max(messages int) RedriveOption {
	return func(r *api.RedriveRequest) { r.SetMaxMessages(int64(messages)) }
}

// Spread spreads the due times of what is redriven over so long; unless given, all are due at once.
func Spread(over time.Duration) RedriveOption {
	return func(r *api.RedriveRequest) { r.SetSpreadMs(milliseconds(over)) }
}

// Redrive makes the dead messages of a topic ready again, those dead longest first, and returns how many.
func (c *Client) Redrive(ctx context.Context, topic string, options ...RedriveOption) (int, error) {
	request := api.NewRedriveRequest()
	for _, option := range options {
		option(request)
	}
	answer, _, err := c.API.Topics.RedriveTopic(ctx, topic).RedriveRequest(*request).Execute()
	if err != nil {
		return 0, err
	}
	return int(answer.Redriven), nil
}

// RedriveMessage makes one dead message ready again.
func (c *Client) RedriveMessage(ctx context.Context, id string) (*api.Message, error) {
	message, _, err := c.API.Messages.RedriveMessage(ctx, id).Execute()
	return message, err
}

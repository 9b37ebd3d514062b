package main

// Publishes again what the typed client leased: payloads must come through it as they were.

import (
	"context"

	dueq "dueq.dev/go"
	"dueq.dev/go/api"
)

func echo(ctx context.Context, client *dueq.Client, from, to string) error {
	for {
		request := api.NewLeaseRequest()
		request.SetMaxMessages(100)
		leased, _, err := client.API.Leases.LeaseMessages(ctx, from).LeaseRequest(*request).Execute()
		if err != nil || len(leased.Messages) == 0 {
			return err
		}
		for _, m := range leased.Messages {
			again := api.NewPublishRequest()
			again.Payload = m.Payload
			again.SetHeaders(m.Headers)
			if _, _, err := client.API.Messages.PublishMessage(ctx, to).PublishRequest(*again).Execute(); err != nil {
				return err
			}
			ack := api.NewAckRequest(m.LeaseToken)
			if _, err := client.API.Leases.AckMessage(ctx, m.ID).AckRequest(*ack).Execute(); err != nil {
				return err
			}
		}
	}
}

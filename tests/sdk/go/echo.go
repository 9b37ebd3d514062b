package main

// Publishes again what the typed client leased: payloads must come through it as they were.

import (
	"context"

	dueq "dueq.dev/go"
)

func echo(ctx context.Context, client *dueq.Client, from, to string) error {
	for {
		request := dueq.NewLeaseRequest()
		request.SetMaxMessages(100)
		leased, _, err := client.Leases.LeaseMessages(ctx, from).LeaseRequest(*request).Execute()
		if err != nil || len(leased.Messages) == 0 {
			return err
		}
		for _, m := range leased.Messages {
			again := dueq.NewPublishRequest()
			again.Payload = m.Payload
			again.SetHeaders(m.Headers)
			if _, _, err := client.Messages.PublishMessage(ctx, to).PublishRequest(*again).Execute(); err != nil {
				return err
			}
			ack := dueq.NewAckRequest(m.LeaseToken)
			if _, err := client.Leases.AckMessage(ctx, m.Id).AckRequest(*ack).Execute(); err != nil {
				return err
			}
		}
	}
}

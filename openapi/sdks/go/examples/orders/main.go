// An order service: reminders that can be moved and cancelled, work that is retried or given up, and a callback.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	dueq "dueq.dev/go"
	"dueq.dev/go/webhooks"
)

func main() {
	ctx, client := context.Background(), dueq.NewClient("") // DUEQ_SERVER, or http://127.0.0.1:8080
	must(client.Publish(ctx, "orders", 1, dueq.Delay(30*time.Minute), dueq.Key("order/1")))
	first := client.Key("orders", "order/1")
	fmt.Println("published", must(first.Get(ctx)).GetKey())
	fmt.Println("moved", must(first.Reschedule(ctx, dueq.Delay(time.Hour))))
	fmt.Println("cancelled", must(first.Cancel(ctx)), "then", must(first.Cancel(ctx)))

	must(client.Publish(ctx, "orders", 2, dueq.Key("order/2")))
	_, err := client.Publish(ctx, "orders", 2, dueq.Key("order/2"), dueq.OnDuplicate(dueq.Reject))
	fmt.Println("refused", dueq.Code(err))
	must(client.Publish(ctx, "payments", 3, dueq.Idempotency("payment/3")))
	if must(client.Publish(ctx, "payments", 3, dueq.Idempotency("payment/3"))).Duplicate {
		fmt.Println("repeated the same message")
	}

	batch := must(client.PublishBatch(ctx, "work", dueq.Message(10), dueq.Message(11), dueq.Message(12)))
	fmt.Println("batch", must(len(batch), batch.Err()))
	var done []int
	handle := dueq.Handle(func(_ context.Context, order int, message *dueq.LeasedMessage) error {
		switch {
		case order == 12:
			return dueq.Dead(errors.New("no such order"))
		case order == 11 && message.Attempt == 1:
			return dueq.RetryIn(0, errors.New("the bank is busy"))
		}
		done = append(done, order)
		return nil
	})
	must(0, dueq.NewWorker(client, "work", handle, dueq.WithConcurrency(1), dueq.WithUntilEmpty()).Run(ctx))
	fmt.Println("worked", done[0], done[1])
	for message, err := range client.Dead(ctx, "work") {
		fmt.Printf("dead %s\n", must(message, err).Payload)
	}
	fmt.Println("redriven", must(client.Redrive(ctx, "work")))

	called := make(chan []byte)
	hook := httptest.NewServer(webhooks.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		called <- must(io.ReadAll(r.Body))
	}), os.Getenv("WEBHOOK_SECRET")))
	must(client.Callback(ctx, hook.URL, map[string]int{"order": 10}))
	fmt.Printf("callback %s\n", <-called)
	hook.Close() // when the callback is answered

	_, err = dueq.NewClient("http://127.0.0.1:1", dueq.WithRetries(0)).Publish(ctx, "orders", 4)
	if unreachable := new(dueq.ConnectError); errors.As(err, &unreachable) {
		fmt.Println("unreachable", unreachable.URL)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

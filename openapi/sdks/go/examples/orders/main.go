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

type order struct {
	Order int `json:"order"`
}

func main() {
	ctx, client := context.Background(), dueq.NewClient("") // DUEQ_SERVER, or http://127.0.0.1:8080
	must(client.Publish(ctx, "orders", order{1}, dueq.Delay(30*time.Minute), dueq.Key("order/1")))
	first := client.Key("orders", "order/1")
	fmt.Println("published", must(first.Get(ctx)).GetKey())
	fmt.Println("moved", must(first.Reschedule(ctx, dueq.Delay(time.Hour))))
	fmt.Println("cancelled", must(first.Cancel(ctx)), "then", must(first.Cancel(ctx)))

	must(client.Publish(ctx, "orders", order{2}, dueq.Key("order/2")))
	_, err := client.Publish(ctx, "orders", order{2}, dueq.Key("order/2"), dueq.OnDuplicate(dueq.Reject))
	fmt.Println("refused", dueq.Code(err))
	must(client.Publish(ctx, "payments", order{3}, dueq.Idempotency("payment/3")))
	if must(client.Publish(ctx, "payments", order{3}, dueq.Idempotency("payment/3"))).Duplicate {
		fmt.Println("repeated the same message")
	}

	batch := must(client.PublishBatch(ctx, "work",
		dueq.Message(order{10}), dueq.Message(order{11}), dueq.Message(order{12})))
	fmt.Println("batch", must(len(batch), batch.Err()))
	var done []int
	work, stop := context.WithCancel(ctx)
	handle := dueq.Handle(func(_ context.Context, o order, message *dueq.LeasedMessage) error {
		switch {
		case o.Order == 12:
			return dueq.Dead(errors.New("no such order"))
		case o.Order == 11 && message.Attempt == 1:
			return dueq.RetryIn(0, errors.New("the bank is busy"))
		case o.Order == 11:
			stop() // it was due last; Run returns when this handler is done
		}
		done = append(done, o.Order)
		return nil
	})
	must(0, dueq.NewWorker(client, "work", handle, dueq.WithConcurrency(1)).Run(work))
	fmt.Println("worked", done[0], done[1])
	for message, err := range client.Dead(ctx, "work") {
		var dead order
		must(0, must(message, err).Decode(&dead))
		fmt.Println("dead", dead.Order)
	}
	fmt.Println("redriven", must(client.Redrive(ctx, "work")))

	called := make(chan []byte)
	hook := httptest.NewServer(webhooks.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		called <- must(io.ReadAll(r.Body))
	}), os.Getenv("WEBHOOK_SECRET")))
	must(client.Callback(ctx, hook.URL, order{10}))
	fmt.Printf("callback %s\n", <-called)
	hook.Close() // when the callback is answered

	_, err = dueq.NewClient("http://127.0.0.1:1", dueq.WithRetries(0)).Publish(ctx, "orders", order{4})
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

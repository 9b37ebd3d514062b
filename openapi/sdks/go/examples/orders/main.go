// An order service: reminders that can be moved and cancelled, work that is retried or given up, and a callback.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	dueq "dueq.dev/go"
	"dueq.dev/go/webhooks"
)

type order struct {
	Order int `json:"order"`
}

func main() {
	ctx := context.Background()
	client := dueq.NewClient("") // DUEQ_SERVER, or http://127.0.0.1:8080

	must(client.Publish(ctx, "orders", order{1}, dueq.Delay(30*time.Minute), dueq.Key("order/1")))
	first := client.Key("orders", "order/1")
	fmt.Println("published", must(first.Get(ctx)).GetKey())
	fmt.Println("moved", must(first.Reschedule(ctx, dueq.Delay(time.Hour))))
	fmt.Println("cancelled", must(first.Cancel(ctx)), "then", must(first.Cancel(ctx)))

	must(client.Publish(ctx, "orders", order{2}, dueq.Key("order/2")))
	_, err := client.Publish(ctx, "orders", order{2}, dueq.Key("order/2"), dueq.OnDuplicate(dueq.Reject))
	fmt.Println("refused", dueq.Code(err))
	payment := must(client.Publish(ctx, "payments", order{3}, dueq.Idempotency("payment/3")))
	if must(client.Publish(ctx, "payments", order{3}, dueq.Idempotency("payment/3"))).Id == payment.Id {
		fmt.Println("repeated the same message")
	}
	batch := must(client.PublishBatch(ctx, "work", dueq.Message(order{10}), dueq.Message(order{11}), dueq.Message(order{12})))
	fmt.Println("batch", must(len(batch), batch.Err()))

	done := work(ctx, client)
	slices.Sort(done)
	fmt.Println("worked", done[0], done[1])
	for message, err := range client.Dead(ctx, "work") {
		var o order
		must(0, must(message, err).Decode(&o))
		fmt.Println("dead", o.Order)
	}
	fmt.Println("redriven", must(client.Redrive(ctx, "work")))

	listener, called := must(net.Listen("tcp", "127.0.0.1:0")), make(chan []byte)
	hook := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := webhooks.Read(r, os.Getenv("WEBHOOK_SECRET"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		called <- body
	})}
	go hook.Serve(listener)
	must(client.Callback(ctx, "http://"+listener.Addr().String(), order{10}))
	fmt.Printf("callback %s\n", <-called)
	must(0, hook.Shutdown(ctx)) // when the callback is answered

	_, err = dueq.NewClient("http://127.0.0.1:1", dueq.WithRetries(0)).Publish(ctx, "orders", order{4})
	if unreachable := new(dueq.ConnectError); errors.As(err, &unreachable) {
		fmt.Println("unreachable", unreachable.URL)
	}
}

// work handles three orders, and returns those that were done.
func work(ctx context.Context, client *dueq.Client) (done []int) {
	ctx, stop := context.WithCancel(ctx)
	left := 3
	handle := dueq.Handle(func(ctx context.Context, o order, message *dueq.LeasedMessage) error {
		if o.Order == 11 && message.Attempt == 1 {
			return dueq.RetryIn(0, errors.New("the bank is busy"))
		}
		if left--; left == 0 {
			stop() // Run returns when this handler is done
		}
		if o.Order == 12 {
			return dueq.Dead(errors.New("no such order"))
		}
		done = append(done, o.Order)
		return nil
	})
	must(0, dueq.NewWorker(client, "work", handle, dueq.WithConcurrency(1)).Run(ctx))
	return done
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

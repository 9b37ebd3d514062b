package dueq_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	dueq "dueq.dev/go"
)

type Order struct {
	Number int `json:"order"`
}

var (
	ctx    = context.Background()
	client = dueq.NewClient("")
)

func ExampleClient_Publish() {
	message, err := client.Publish(ctx, "orders", Order{42},
		dueq.Delay(30*time.Minute), dueq.Key("order/42"), dueq.Header("source", "shop"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(message.Id, message.DueAt)
}

func ExampleClient_PublishBatch() {
	results, err := client.PublishBatch(ctx, "orders",
		dueq.Message(Order{1}), dueq.Message(Order{2}, dueq.At(time.Now().AddDate(0, 0, 1))))
	if err := errors.Join(err, results.Err()); err != nil {
		log.Fatal(err)
	}
}

func ExampleClient_Callback() {
	_, err := client.Callback(ctx, "https://example.com/hook", Order{42}, dueq.Delay(time.Hour), dueq.CallTimeout(5*time.Second))
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleKeyed_Cancel() {
	cancelled, err := client.Key("orders", "order/42").Cancel(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(cancelled)
}

func ExampleClient_Dead() {
	for message, err := range client.Dead(ctx, "orders") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %s\n", message.Id, message.Payload)
	}
}

func ExampleWorker_Run() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	handle := dueq.Handle(func(ctx context.Context, order Order, message *dueq.LeasedMessage) error {
		if order.Number == 0 {
			return dueq.Dead(errors.New("no such order"))
		}
		return nil
	})
	if err := dueq.NewWorker(client, "orders", handle, dueq.WithConcurrency(64)).Run(ctx); err != nil {
		log.Fatal(err)
	}
}

func ExampleCode() {
	_, err := client.Publish(ctx, "orders", Order{42}, dueq.Key("order/42"), dueq.OnDuplicate(dueq.Reject))
	if dueq.Code(err) == "duplicate_key" {
		fmt.Println("there is one already")
	}
}

func ExampleIdempotency() {
	for range 2 { // the same message answers twice
		if _, err := client.Publish(ctx, "payments", Order{42}, dueq.Idempotency("payment/42")); err != nil {
			log.Fatal(err)
		}
	}
}

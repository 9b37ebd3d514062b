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
	"dueq.dev/go/api"
	"dueq.dev/go/dueqtest"
)

type Order struct {
	Number int `json:"order"`
}

var (
	ctx    = context.Background()
	server = dueqtest.NewServer(nil) // a dueq in memory
	client = server.Client()
)

func ExampleClient_Publish() {
	message, err := client.Publish(ctx, "reminders", Order{42},
		dueq.Delay(30*time.Minute), dueq.Key("order/42"), dueq.Header("source", "shop"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(message.State, message.DueAt.Sub(message.PublishedAt))
	// Output: delayed 30m0s
}

func ExampleClient_PublishBatch() {
	results, err := client.PublishBatch(ctx, "batches",
		dueq.Message(Order{1}), dueq.Message(Order{2}, dueq.At(time.Now().AddDate(0, 0, 1))))
	if err := errors.Join(err, results.Err()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(results[0].Message.State, results[1].Message.State)
	// Output: ready delayed
}

func ExampleClient_Callback() {
	message, err := client.Callback(ctx, "https://example.com/hook", Order{42},
		dueq.Delay(time.Hour), dueq.CallTimeout(5*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(message.Topic, message.State)
	// Output: _callbacks delayed
}

func ExampleClient_Key() {
	if _, err := client.Publish(ctx, "carts", Order{42}, dueq.Delay(time.Hour), dueq.Key("cart/42")); err != nil {
		log.Fatal(err)
	}
	cart := client.Key("carts", "cart/42")
	moved, err := cart.Reschedule(ctx, dueq.Delay(24*time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	cancelled, err := cart.Cancel(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = cart.Get(ctx)
	fmt.Println(moved, cancelled, dueq.Code(err))
	// Output: true true message_not_found
}

func ExampleClient_Dead() {
	bury("payments", Order{7})
	for message, err := range client.Dead(ctx, "payments") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %s\n", message.Payload, message.GetLastError())
	}
	// Output: {"order":7} no such order
}

func ExampleClient_Redrive() {
	bury("refunds", Order{7}, Order{8})
	redriven, err := client.Redrive(ctx, "refunds", dueq.Max(1))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(redriven)
	// Output: 1
}

func ExampleClient_Topics() {
	if _, err := client.Publish(ctx, "stock-berlin", 1); err != nil {
		log.Fatal(err)
	}
	for topic, err := range client.Topics(ctx, "stock-") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(topic.Name, topic.Counts.Ready)
	}
	// Output: stock-berlin 1
}

// A program's own worker runs until SIGINT or SIGTERM.
func ExampleWorker_Run() {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if _, err := client.Publish(ctx, "orders", Order{42}); err != nil {
		log.Fatal(err)
	}
	handle := func(ctx context.Context, message *dueq.LeasedMessage) error {
		fmt.Printf("attempt %d: %s\n", message.Attempt, message.Payload)
		stop() // in place of the signal
		return nil
	}
	if err := dueq.NewWorker(client, "orders", handle, dueq.WithConcurrency(64)).Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: attempt 1: {"order":42}
}

func ExampleHandle() {
	ctx, stop := context.WithCancel(ctx)
	if _, err := client.Publish(ctx, "typed", Order{42}); err != nil {
		log.Fatal(err)
	}
	handle := dueq.Handle(func(ctx context.Context, order Order, message *dueq.LeasedMessage) error {
		if message.Attempt == 1 {
			return dueq.RetryIn(time.Millisecond, errors.New("the bank is busy"))
		}
		fmt.Println(order.Number)
		stop()
		return nil
	})
	quiet := dueq.Hooks{OnFailed: func(message *dueq.LeasedMessage, err error) { fmt.Println(err) }}
	if err := dueq.NewWorker(client, "typed", handle, dueq.WithHooks(quiet)).Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// the bank is busy
	// 42
}

func ExampleWithMiddleware() {
	ctx, stop := context.WithCancel(ctx)
	if _, err := client.Publish(ctx, "logged", Order{42}); err != nil {
		log.Fatal(err)
	}
	logged := func(next dueq.Handler) dueq.Handler {
		return func(ctx context.Context, message *dueq.LeasedMessage) error {
			err := next(ctx, message)
			fmt.Println(message.Topic, message.Attempt, err)
			return err
		}
	}
	handle := func(context.Context, *dueq.LeasedMessage) error { stop(); return nil }
	if err := dueq.NewWorker(client, "logged", handle, dueq.WithMiddleware(logged)).Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: logged 1 <nil>
}

func ExampleWithUntilEmpty() {
	if _, err := client.PublishBatch(ctx, "nightly", dueq.Message(1), dueq.Message(2, dueq.Delay(time.Hour))); err != nil {
		log.Fatal(err)
	}
	handle := func(ctx context.Context, message *dueq.LeasedMessage) error {
		fmt.Printf("%s\n", message.Payload)
		return nil
	}
	if err := dueq.NewWorker(client, "nightly", handle, dueq.WithUntilEmpty()).Run(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("nothing is due")
	// Output:
	// 1
	// nothing is due
}

func ExampleCode() {
	for range 2 {
		_, err := client.Publish(ctx, "invoices", Order{42}, dueq.Key("order/42"), dueq.OnDuplicate(dueq.Reject))
		fmt.Printf("%q\n", dueq.Code(err))
	}
	// Output:
	// ""
	// "duplicate_key"
}

func ExampleIdempotency() {
	for range 2 { // the same message answers twice
		message, err := client.Publish(ctx, "transfers", Order{42}, dueq.Idempotency("transfer/42"))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(message.Duplicate)
	}
	// Output:
	// false
	// true
}

// Anything that has no method of its own is in the generated API.
func Example_everyOperation() {
	request := api.NewUpdateTopicRequest()
	request.SetLeaseMs(60000)
	request.SetMaxAttemptsNil() // back to the default
	_, _, err := client.API.Topics.UpdateTopic(ctx, "orders").UpdateTopicRequest(*request).Execute()
	fmt.Println(err) // the dueq in memory has no configuration
	// Output: dueq: 501 not_supported: dueqtest has no PATCH /topics/orders (request dueqtest)
}

// bury publishes orders that no attempt helps.
func bury(topic string, orders ...Order) {
	for _, order := range orders {
		if _, err := client.Publish(ctx, topic, order); err != nil {
			log.Fatal(err)
		}
	}
	handle := func(context.Context, *dueq.LeasedMessage) error { return dueq.Dead(errors.New("no such order")) }
	quiet := dueq.WithHooks(dueq.Hooks{OnFailed: func(*dueq.LeasedMessage, error) {}})
	if err := dueq.NewWorker(client, topic, handle, quiet, dueq.WithConcurrency(1), dueq.WithUntilEmpty()).Run(ctx); err != nil {
		log.Fatal(err)
	}
}

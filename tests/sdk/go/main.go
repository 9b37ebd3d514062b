// The test program of the Go SDK: one of four that do the same, each in its language. tests/sdk starts it and reads what it
// prints; tests/sdk/steps.md says what the steps are.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	dueq "dueq.dev/go"
)

type arguments struct {
	server, topic, to               string
	concurrency, prefetch, messages int
	words                           []string // before the flags
}

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: SUBCOMMAND --server URL …")
	}
	var args arguments
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	flags.StringVar(&args.server, "server", "", "where dueq is")
	flags.StringVar(&args.topic, "topic", "", "the topic")
	flags.StringVar(&args.to, "to", "", "the topic that echo publishes to")
	flags.IntVar(&args.concurrency, "concurrency", 10, "handlers at once")
	flags.IntVar(&args.prefetch, "prefetch", 1, "messages a lease request")
	flags.IntVar(&args.messages, "messages", 1000, "messages of a bench")
	words := os.Args[2:]
	for len(words) > 0 && !strings.HasPrefix(words[0], "-") {
		args.words, words = append(args.words, words[0]), words[1:]
	}
	_ = flags.Parse(words)
	client := dueq.NewClient(args.server)

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	var err error
	switch os.Args[1] {
	case "steps":
		err = steps(ctx, client, args.topic)
	case "echo":
		err = echo(ctx, client, args.topic, args.to)
	case "publish":
		err = publish(ctx, args)
	case "work":
		err = work(ctx, client, args)
	case "lose":
		err = lose(ctx, client, args)
	case "bench-work":
		err = benchWork(ctx, client, args)
	case "bench-late":
		err = benchLate(ctx, client, args)
	default:
		err = fmt.Errorf("no such subcommand: %s", os.Args[1])
	}
	if err != nil {
		log.Fatal(err)
	}
}

// Lines of stdout come from many goroutines; a test reads them.
var (
	lines  sync.Mutex
	stdout io.Writer = os.Stdout
)

func say(format string, values ...any) {
	lines.Lock()
	defer lines.Unlock()
	fmt.Fprintf(stdout, format+"\n", values...)
}

func sayJSON(value any) {
	line, err := json.Marshal(value)
	if err != nil {
		log.Fatal(err)
	}
	say("%s", line)
}

// publish publishes N messages to TOPIC, 16 at a time, and says how many were answered with a message.
func publish(ctx context.Context, args arguments) error {
	if len(args.words) != 2 {
		return errors.New("usage: publish N TOPIC --server URL")
	}
	messages, err := strconv.Atoi(args.words[0])
	if err != nil {
		return err
	}
	client := dueq.NewClient(args.server, dueq.WithRetries(120*time.Second))
	var next, published atomic.Int64
	var publishers sync.WaitGroup
	for range 16 {
		publishers.Add(1)
		go func() {
			defer publishers.Done()
			for n := next.Add(1) - 1; n < int64(messages); n = next.Add(1) - 1 {
				if message, err := client.Publish(ctx, args.words[1], map[string]int64{"n": n}); err != nil {
					log.Print(err)
				} else if message.ID != "" {
					published.Add(1)
				}
			}
		}()
	}
	publishers.Wait()
	say("published %d", published.Load())
	return nil
}

func work(ctx context.Context, client *dueq.Client, args arguments) error {
	worker := dueq.NewWorker(client, args.topic, func(_ context.Context, m *dueq.LeasedMessage) error {
		var payload struct{ N int }
		if err := m.Decode(&payload); err != nil {
			return err
		}
		if payload.N%20 == 0 && m.Attempt == 1 {
			say("failed %s", m.ID)
			return fmt.Errorf("the first attempt at %d fails", payload.N)
		}
		time.Sleep(time.Duration(payload.N%7) * time.Millisecond)
		say("handled %s", m.ID)
		return nil
	}, dueq.WithConcurrency(args.concurrency), dueq.WithPrefetch(args.prefetch), dueq.WithHooks(dueq.Hooks{
		OnError: func(err error) { log.Print(err) },
		OnLost:  func(m *dueq.LeasedMessage) { log.Printf("lost %s", m.ID) },
	}))
	say("ready")
	if err := worker.Run(ctx); err != nil {
		return err
	}
	say("stopped")
	return nil
}

func lose(ctx context.Context, client *dueq.Client, args arguments) error {
	handler := func(ctx context.Context, m *dueq.LeasedMessage) error {
		var payload struct{ Long bool }
		if err := m.Decode(&payload); err != nil {
			return err
		}
		if payload.Long {
			select {
			case <-ctx.Done():
				log.Printf("%s: %v", m.ID, context.Cause(ctx))
			case <-time.After(3500 * time.Millisecond):
				say("long %s", m.ID)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			if context.Cause(ctx) == dueq.ErrLeaseLost {
				say("cancelled %s", m.ID)
			}
		case <-time.After(20 * time.Second):
		}
		return nil
	}
	if err := dueq.NewWorker(client, args.topic, handler, dueq.WithLease(time.Second)).Run(ctx); err != nil {
		return err
	}
	say("stopped")
	return nil
}

package main

import (
	"context"
	"os"
	"runtime/pprof"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	dueq "dueq.dev/go"
)

// profile writes a CPU profile of what follows where CPUPROFILE says, if it does.
func profile() func() {
	path := os.Getenv("CPUPROFILE")
	if path == "" {
		return func() {}
	}
	file, err := os.Create(path)
	if err != nil || pprof.StartCPUProfile(file) != nil {
		return func() {}
	}
	return pprof.StopCPUProfile
}

// benchWork counts from the first handler's beginning to the last one's end. Run then stops, which takes half a second whenever a
// long poll hangs, and sends the acks of the last few messages: those are not counted, and are few among thousands.
func benchWork(ctx context.Context, client *dueq.Client, args arguments) error {
	defer profile()()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var once sync.Once
	var began, ended time.Time
	var handled atomic.Int64
	handler := func(context.Context, *dueq.LeasedMessage) error {
		once.Do(func() { began = time.Now() })
		if handled.Add(1) == int64(args.messages) {
			ended = time.Now()
			stop()
		}
		return nil
	}
	worker := dueq.NewWorker(client, args.topic, handler,
		dueq.WithConcurrency(args.concurrency), dueq.WithPrefetch(args.prefetch))
	if err := worker.Run(ctx); err != nil {
		return err
	}
	sayJSON(map[string]any{"per_s": float64(args.messages) / ended.Sub(began).Seconds()})
	return nil
}

func benchLate(ctx context.Context, client *dueq.Client, args arguments) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var late []float64 // only one handler runs at a time
	handler := func(_ context.Context, m *dueq.LeasedMessage) error {
		now := time.Now()
		late = append(late, float64(now.Sub(m.DueAt).Microseconds())/1000)
		if len(late) == args.messages {
			stop()
		}
		return nil
	}
	if err := dueq.NewWorker(client, args.topic, handler, dueq.WithConcurrency(1)).Run(ctx); err != nil {
		return err
	}
	slices.Sort(late)
	at := func(share float64) float64 { return late[min(int(share*float64(len(late))), len(late)-1)] }
	sayJSON(map[string]any{"p50_ms": at(0.5), "p99_ms": at(0.99), "max_ms": late[len(late)-1]})
	return nil
}

package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	dueq "dueq.dev/go"
)

type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// capture has the default logger write where a test looks.
func capture(t *testing.T) *logged {
	log, before := &logged{}, slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return log
}

func TestHandlersThatFailAreLoggedUnlessAHookIsTold(t *testing.T) {
	log := capture(t)
	server := newFake(t, `"fail"`, `"panic"`, `"dead"`, `"later"`)
	var order *struct{ Number int }
	handler := func(_ context.Context, m *dueq.LeasedMessage) error {
		switch string(m.Payload) {
		case `"panic"`:
			order.Number++
		case `"dead"`:
			return dueq.Dead(errors.New("no such order"))
		case `"later"`:
			return dueq.RetryIn(0, errors.New("busy"))
		}
		return errors.New("the bank is closed")
	}
	stop := start(t, server.client(), handler, dueq.WithConcurrency(1))
	until(t, "all settled", func() bool { _, nacked := server.settledSoFar(); return len(nacked) == 4 })
	_ = stop()
	for _, text := range []string{"topic=t id=id-1 attempt=1 error=\"the bank is closed\"", "nil pointer dereference", "logging_test.go",
		"id=id-3 attempt=1 error=\"no such order\"",
		"level=INFO msg=\"dueq: the handler wants the message again\" topic=t id=id-4 attempt=1 error=busy retry_in=0s"} {
		if log.count(text) == 0 {
			t.Errorf("not logged: %s\n%s", text, log.text.String())
		}
	}

	server = newFake(t, `"later"`)
	server.attemptsLeft = 0
	stop = start(t, server.client(), handler)
	until(t, "settled", func() bool { _, nacked := server.settledSoFar(); return len(nacked) == 1 })
	_ = stop()
	if log.count("level=WARN msg=\"dueq: the handler failed\" topic=t id=id-1 attempt=1 error=busy") == 0 {
		t.Error("a last attempt is not logged", log.text.String())
	}

	lines := log.count("\n")
	server = newFake(t, "1")
	stop = start(t, server.client(), handler, dueq.WithHooks(dueq.Hooks{OnFailed: func(*dueq.LeasedMessage, error) {}}))
	until(t, "settled", func() bool { _, nacked := server.settledSoFar(); return len(nacked) == 1 })
	_ = stop()
	if log.count("\n") != lines {
		t.Error(log.text.String())
	}
}

func TestAServerThatIsAwayIsLoggedOnceAndOnceWhenItIsBack(t *testing.T) {
	log := capture(t)
	server := newFake(t, "1", "2", "3")
	var failures atomic.Int32
	server.instead = func(string, http.ResponseWriter) bool {
		if failures.Add(1) <= 4 {
			panic(http.ErrAbortHandler)
		}
		return false
	}
	stop := start(t, server.client(), func(context.Context, *dueq.LeasedMessage) error { return nil })
	until(t, "all acked", func() bool { acked, _ := server.settledSoFar(); return len(acked) == 3 })
	_ = stop()
	away, back := log.count("cannot reach "+server.URL+", retrying"), log.count(server.URL+" answers again")
	if away != 1 || back != 1 || failures.Load() < 5 {
		t.Errorf("away %d, back %d\n%s", away, back, log.text.String())
	}
}

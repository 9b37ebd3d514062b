package dueq

// What a handler's error may say beyond "failed", and what a handler is told when it is to end.

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

var (
	// ErrLeaseLost is the cause ([context.Cause]) of a handler's context when its lease is lost: the message was deleted, or is
	// somebody else's by now. Whatever the handler returns counts for nothing.
	ErrLeaseLost = errors.New("dueq: the lease is lost")
	// ErrStopTimeout is the cause of a handler's context when the worker stops and the handler outran its stop timeout: the
	// message is given back unless the handler returns nil at once.
	ErrStopTimeout = errors.New("dueq: the worker stops")

	errGoexit = errors.New("the handler ended its goroutine")
)

// PanicError is what a handler that panicked is taken to have returned.
type PanicError struct {
	// Value is what it panicked with.
	Value any
	// Stack is where.
	Stack []byte
}

func (p *PanicError) Error() string {
	return fmt.Sprintf("panic: %v", p.Value)
}

// RetryIn is returned by a handler to have the message again after a delay, instead of by the topic's backoff. It counts as an
// attempt. The error is why; it may be nil.
func RetryIn(delay time.Duration, err error) error {
	return &verdict{delay: delay, err: err}
}

// Dead is returned by a handler for a message that no attempt will help. It is dead at once, and stays until it is redriven or
// its time is over. The error is why; it may be nil.
func Dead(err error) error {
	return &verdict{dead: true, err: err}
}

type verdict struct {
	delay time.Duration
	dead  bool
	err   error
}

func (v *verdict) Error() string {
	switch {
	case v.err != nil:
		return v.err.Error()
	case v.dead:
		return "dead"
	default:
		return "retry in " + v.delay.String()
	}
}

func (v *verdict) Unwrap() error { return v.err }

// longestReason is what the server takes, in characters.
const longestReason = 1024

func reasonOf(err error) string {
	// The text of an error is the user's code, too, and may panic as fmt has it.
	text := strings.ToValidUTF8(fmt.Sprint(err), "\uFFFD")
	if utf8.RuneCountInString(text) > longestReason {
		text = string([]rune(text)[:longestReason])
	}
	return text
}

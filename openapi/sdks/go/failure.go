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
	return &RetryError{Delay: delay, Err: err}
}

// Dead is returned by a handler for a message that no attempt will help. It is dead at once, and stays until it is redriven or
// its time is over. The error is why; it may be nil.
func Dead(err error) error {
	return &DeadError{Err: err}
}

// RetryError is what [RetryIn] returns; [errors.As] tells it from other failures in [Hooks].
type RetryError struct {
	Delay time.Duration // how soon the message comes again
	Err   error         // why, or nil
}

func (e *RetryError) Error() string {
	if e.Err == nil {
		return "retry in " + e.Delay.String()
	}
	return e.Err.Error()
}

func (e *RetryError) Unwrap() error { return e.Err }

// DeadError is what [Dead] returns; [errors.As] tells it from other failures in [Hooks].
type DeadError struct {
	Err error // why, or nil
}

func (e *DeadError) Error() string {
	if e.Err == nil {
		return "dead"
	}
	return e.Err.Error()
}

func (e *DeadError) Unwrap() error { return e.Err }

// verdict is either; of two that wrap each other the outer one counts.
type verdict interface {
	error
	Unwrap() error
	decide(*nack)
}

func (e *RetryError) decide(n *nack) { n.delayed, n.delay = true, max(e.Delay, 0) }
func (e *DeadError) decide(n *nack)  { n.dead = true }

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

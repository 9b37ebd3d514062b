package dueq

// Keeping a trace together: the W3C traceparent header of a message is that of whatever its handler publishes.

import (
	"context"
	"strings"

	"dueq.dev/go/api"
)

const traceparent = "traceparent"

type traceKey struct{}

// WithTraceparent returns a context whose publishes carry the header traceparent, unless they have one of their own. A handler's
// context is such a one if its message has the header.
func WithTraceparent(ctx context.Context, traceparent string) context.Context {
	return context.WithValue(ctx, traceKey{}, traceparent)
}

// Traceparent is the traceparent that publishes with the context carry, and "" if there is none. A tracing library continues the
// trace from it in a handler.
func Traceparent(ctx context.Context) string {
	value, _ := ctx.Value(traceKey{}).(string)
	return value
}

// traced gives a request the context's traceparent.
func traced(ctx context.Context, request *api.PublishRequest) {
	value := Traceparent(ctx)
	if value == "" {
		return
	}
	for name := range request.Headers {
		if strings.EqualFold(name, traceparent) {
			return
		}
	}
	_ = Header(traceparent, value).apply(request)
}

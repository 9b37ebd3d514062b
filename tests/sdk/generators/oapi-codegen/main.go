// Calls a dueq through what oapi-codegen made of its document: what a user of the generator would write first.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"time"

	"dueq-generated-by-oapi-codegen/dueq"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func check(ok bool, what string, seen any) {
	if !ok {
		must(fmt.Errorf("%s: %+v", what, seen))
	}
}

func of[T any](value T) *T { return &value }

func main() {
	ctx, server, topic := context.Background(), os.Args[1], os.Args[2]
	client, err := dueq.NewClientWithResponses(server)
	must(err)

	payload := map[string]any{"nested": []any{nil, false, map[string]any{"a": 1.5}}, "none": nil}
	published, err := client.PublishMessageWithResponse(ctx, topic, nil, dueq.PublishRequest{
		Payload:  of[dueq.AnyJson](payload),
		Key:      of("order-42"),
		Headers:  &map[string]string{"trace": "1"},
		Priority: of(int64(3)),
		Backoff:  &dueq.BackoffRequest{Kind: of(dueq.BackoffKindFixed), BaseMs: of(int64(10))},
	})
	must(err)
	check(published.JSON201 != nil, "published", published.Status())
	check(published.JSON201.State == dueq.StateReady, "ready", published.JSON201)

	bytes, err := client.PublishMessageWithResponse(ctx, topic, nil, dueq.PublishRequest{
		PayloadBase64: of([]byte("\x00\xff")), DelayMs: of(int64(60000)),
	})
	must(err)
	check(bytes.JSON201 != nil && bytes.JSON201.State == dueq.StateDelayed, "delayed", bytes.Status())
	found, err := client.GetMessageWithResponse(ctx, bytes.JSON201.Id)
	must(err)
	check(found.JSON200 != nil && string(*found.JSON200.PayloadBase64) == "\x00\xff", "bytes", found)

	leased, err := client.LeaseMessagesWithResponse(ctx, topic, dueq.LeaseRequest{WaitMs: of(int64(5000))})
	must(err)
	check(leased.JSON200 != nil && len(leased.JSON200.Messages) == 1, "leased", leased.Status())
	message := leased.JSON200.Messages[0]
	check(message.Id == published.JSON201.Id, "the same message", message)
	check(reflect.DeepEqual(*message.Payload, any(payload)), "the payload", message)
	check(message.LeaseExpiresAt.After(message.PublishedAt.Add(time.Second)), "instants", message)

	token := dueq.AckRequest{LeaseToken: message.LeaseToken}
	acked, err := client.AckMessageWithResponse(ctx, message.Id, token)
	must(err)
	check(acked.StatusCode() == http.StatusNoContent, "acked", acked.Status())

	again, err := client.AckMessageWithResponse(ctx, message.Id, token)
	must(err)
	gone := again.ApplicationproblemJSON404
	check(gone != nil && gone.Code == "message_not_found", "caught by its code", again.Status())
	wrong, err := client.PublishMessageWithResponse(ctx, topic, nil, dueq.PublishRequest{
		Payload: of[dueq.AnyJson](1), Priority: of(int64(256)),
	})
	must(err)
	refused := wrong.ApplicationproblemJSON422
	check(refused != nil && refused.Code == "invalid_input", "refused", wrong.Status())
	check((*refused.Errors)[0].Field == "priority", "the field", refused)

	// A null is a payload like any other.
	null := json.RawMessage("null")
	nothing, err := client.PublishMessageWithResponse(ctx, topic, nil, dueq.PublishRequest{Payload: of[dueq.AnyJson](null)})
	must(err)
	check(nothing.StatusCode() == http.StatusCreated, "null", nothing.Status())
	fmt.Println("ok")
}

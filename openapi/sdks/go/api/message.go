// Package api is every operation of dueq's HTTP API, generated from its OpenAPI document: a method an operation, what it takes
// set one by one, and Execute sends it. It is reached through [dueq.dev/go.Client.API], which adds the server, the API key,
// time-outs, retries and typed errors.
//
//	request := api.NewUpdateTopicRequest()
//	request.SetLeaseMs(60000)
//	request.SetMaxAttemptsNil() // back to the default
//	topic, _, err := client.API.Topics.UpdateTopic(ctx, "orders").UpdateTopicRequest(*request).Execute()
//
// Durations are milliseconds and end in Ms. Optional fields have setters and getters. Enumerations are strings with constants; a
// newer server may answer with values and fields that are not known here.
package api

import (
	"encoding/base64"
	"encoding/json"
	"errors"
)

// JSON is any JSON value as it is spelled: null, 1e400 and integers of any size are kept. As a payload in a request, nil means
// "no payload" and JSON("null") the value null; in an answer nil means that the payload is bytes (PayloadBase64).
type JSON = json.RawMessage

// Decode reads a JSON payload into a value, as [json.Unmarshal] does; for numbers that no float holds, decode into a struct, or
// a [json.Number], or use Payload. A payload of bytes is an error: see [LeasedMessage.Bytes].
func (o *LeasedMessage) Decode(into any) error { return decode(o.Payload, into) }

// Bytes returns the payload as the bytes that were published: those of a JSON payload as they were spelled, or those that came as
// base64, whose media type is in ContentType.
func (o *LeasedMessage) Bytes() ([]byte, error) { return bytesOf(o.Payload, o.PayloadBase64) }

// Decode reads a JSON payload into a value, as [json.Unmarshal] does. A payload of bytes is an error: see [Message.Bytes].
func (o *Message) Decode(into any) error { return decode(o.Payload, into) }

// Bytes returns the payload as the bytes that were published, like [LeasedMessage.Bytes].
func (o *Message) Bytes() ([]byte, error) { return bytesOf(o.Payload, o.PayloadBase64) }

func decode(payload JSON, into any) error {
	if payload == nil {
		return errors.New("dueq: the payload is bytes, not JSON")
	}
	return json.Unmarshal(payload, into)
}

func bytesOf(payload JSON, inBase64 *string) ([]byte, error) {
	if inBase64 == nil {
		return payload, nil
	}
	return base64.StdEncoding.DecodeString(*inBase64)
}

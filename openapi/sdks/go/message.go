package dueq

import (
	"encoding/base64"
	"encoding/json"
	"errors"
)

// Decode reads a JSON payload into a value, as [json.Unmarshal] does; for numbers that no float holds, decode into a struct, or
// a [json.Number], or use Payload. A payload of bytes is an error: see [LeasedMessage.Bytes].
func (o *LeasedMessage) Decode(into any) error {
	if o.Payload == nil {
		return errors.New("dueq: the payload is bytes, not JSON")
	}
	return json.Unmarshal(o.Payload, into)
}

// Bytes returns the payload as the bytes that were published: those of a JSON payload as they were spelled, or those that came as
// base64, whose media type is in ContentType.
func (o *LeasedMessage) Bytes() ([]byte, error) {
	if o.PayloadBase64 == nil {
		return o.Payload, nil
	}
	return base64.StdEncoding.DecodeString(*o.PayloadBase64)
}

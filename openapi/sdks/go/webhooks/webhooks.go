// Package webhooks verifies that a callback comes from dueq, by the signature of Standard Webhooks that it carries.
//
//	http.Handle("POST /hook", webhooks.Handler(hook, os.Getenv("WEBHOOK_SECRET")))
//
// where hook is a [http.Handler] that gets verified requests only. Where a request was read already, [Verify] verifies its body.
package webhooks

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Tolerance is how far the time of a callback may be from this machine's clock, unless a [Verifier] says otherwise.
const Tolerance = 5 * time.Minute

// longest is what [Read] reads of a body: more than dueq takes as a payload.
const longest = 16 << 20

// Verify returns nil if a request with this body and these headers was signed with one of the secrets (`whsec_…`; several while
// they are rotated; or public keys of dueq's, `whpk_…`) in the last 5 minutes, and otherwise says what is wrong. The body has to be as it came, byte for byte. A topic
// in the header Dueq-Topic is verified, too: topics that share a secret are told apart by it. It is absent where the request is
// not from dueq.
func Verify(body []byte, header http.Header, secrets ...string) error {
	return Verifier{Secrets: secrets}.Verify(body, header)
}

// Handler has verified requests handled by another handler, which can read the body as ever. All others are answered with 401.
func Handler(next http.Handler, secrets ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := Read(r, secrets...)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// Read reads the body of a request and verifies it with [Verify]. With an error it gives no body.
func Read(request *http.Request, secrets ...string) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, request.Body, longest))
	if err == nil {
		err = Verify(body, request.Header, secrets...)
	}
	if err != nil {
		return nil, err
	}
	return body, nil
}

// Verifier verifies with another tolerance.
type Verifier struct {
	// Secrets are as for [Verify].
	Secrets []string
	// Tolerance is how far the time of a callback may be from this machine's clock; 0 means [Tolerance].
	Tolerance time.Duration
}

// Verify is as the function [Verify].
func (v Verifier) Verify(body []byte, header http.Header) error {
	keys, err := v.keys()
	if err != nil {
		return err
	}
	id, timestamp, signatures := value(header, "webhook-id"), value(header, "webhook-timestamp"), value(header, "webhook-signature")
	if id == "" || timestamp == "" || signatures == "" {
		return errors.New("webhooks: webhook-id, webhook-timestamp and webhook-signature are not all there")
	}
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return errors.New("webhooks: webhook-timestamp is not a number of seconds")
	}
	tolerance := v.Tolerance
	if tolerance == 0 {
		tolerance = Tolerance
	}
	if age := time.Since(time.Unix(seconds, 0)); age > tolerance || age < -tolerance {
		return fmt.Errorf("webhooks: webhook-timestamp is more than %s away from this machine's time", tolerance)
	}
	if !signed(keys, signatures, []byte(id+"."+timestamp+"."), body) {
		return errors.New("webhooks: no signature is of this body and any of the secrets")
	}
	// dueq signs the topic apart from the body.
	topic, ofTopic := value(header, "dueq-topic"), value(header, "dueq-signature")
	if topic == "" && ofTopic == "" {
		return nil
	}
	if topic == "" || ofTopic == "" {
		return errors.New("webhooks: dueq-topic and dueq-signature are not both there")
	}
	if !signed(keys, ofTopic, []byte(id+":"+timestamp+":"+topic)) {
		return errors.New("webhooks: no signature is of this topic and any of the secrets")
	}
	return nil
}

// signed says if one of the signatures is of these parts and one of the keys.
func signed(keys []key, signatures string, parts ...[]byte) (valid bool) {
	content := bytes.Join(parts, nil)
	for _, key := range keys {
		for _, signature := range strings.Fields(signatures) {
			version, encoded, _ := strings.Cut(signature, ",")
			given, err := base64.StdEncoding.DecodeString(encoded)
			if err == nil && key.signed(version, given, content) {
				valid = true
			}
		}
	}
	return valid
}

// key is the key of one of the secrets.
type key struct {
	public bool
	bytes  []byte
}

func (k key) signed(version string, signature, content []byte) bool {
	if k.public {
		return version == "v1a" && ed25519.Verify(k.bytes, content, signature)
	}
	mac := hmac.New(sha256.New, k.bytes)
	mac.Write(content)
	return version == "v1" && hmac.Equal(signature, mac.Sum(nil))
}

func (v Verifier) keys() (keys []key, err error) {
	for _, secret := range v.Secrets {
		encoded, public := strings.CutPrefix(secret, "whpk_")
		if !public {
			encoded = strings.TrimPrefix(secret, "whsec_")
		}
		bytes, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || len(bytes) == 0 || public && len(bytes) != ed25519.PublicKeySize {
			return nil, errors.New("webhooks: a secret is not whsec_ and base64, nor whpk_ and 32 bytes in base64")
		}
		keys = append(keys, key{public, bytes})
	}
	if len(keys) == 0 {
		return nil, errors.New("webhooks: there is no secret to verify with")
	}
	return keys, nil
}

// value finds a header in any case; [http.Header.Get] knows one.
func value(header http.Header, name string) string {
	for key, values := range header {
		if strings.EqualFold(key, name) && len(values) > 0 {
			return values[0]
		}
	}
	return ""
}

package webhooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

const (
	secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	other  = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	body   = `{"order": 42}`
)

func signature(with, id, body string, at time.Time) string {
	return sign(with, fmt.Sprintf("%s.%d.%s", id, at.Unix(), body))
}

func sign(with, content string) string {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(with, "whsec_"))
	if err != nil {
		panic(err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(content))
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

func headers(at time.Time, signatures ...string) http.Header {
	header := http.Header{}
	header.Set("Webhook-Id", "msg_1")
	header.Set("Webhook-Timestamp", fmt.Sprint(at.Unix()))
	header.Set("Webhook-Signature", strings.Join(signatures, " "))
	return header
}

// The example of the specification, https://github.com/standard-webhooks/standard-webhooks.
func TestTheSpecificationsExampleIsValid(t *testing.T) {
	header := http.Header{"webhook-id": {"msg_p5jXN8AQM9LWM0D4loKWxJek"}, "WEBHOOK-TIMESTAMP": {"1614265330"},
		"Webhook-Signature": {"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="}}
	forever := Verifier{Secrets: []string{secret}, Tolerance: 1 << 62}
	if err := forever.Verify([]byte(`{"test": 2432232314}`), header); err != nil {
		t.Error(err)
	}
	if err := Verify([]byte(`{"test": 2432232314}`), header, secret); err == nil || !strings.Contains(err.Error(), "5m0s") {
		t.Error(err)
	}
}

// As dueq's own tests have them.
func TestPublicKeysVerifyWhatDueqSignsWithItsKeyPairs(t *testing.T) {
	const public = "whpk_XL9MzUGxc2s/gozEjuXB1blGuxvZRLLYCHL8skSJPaQ="
	const good = "v1,AAAA v1a,NlkuXO2v0fFGNf9nJ+WLerVrsJD/MOd31wd28H6XBkiDTh9/z+ADuVpRq6KqXIi4zQxAINKVgt272/ZxtD4mCA=="
	const ofTopic = "v1a,fRPka8NyhfacLz4J5uvT51S1xG7Gt4v23/+bpTkpEQM4tq2dHeUPczdKYSuH5+pNW+fKkVmBdGS1VeV6X/ZnBw=="
	verify := func(body, id, topic, signatures string, secrets ...string) error {
		header := http.Header{}
		for name, value := range map[string]string{"webhook-id": id, "webhook-timestamp": "1763700000", "webhook-signature": signatures,
			"dueq-topic": topic, "dueq-signature": ofTopic} {
			header.Set(name, value)
		}
		return Verifier{Secrets: secrets, Tolerance: 1 << 62}.Verify([]byte(body), header)
	}
	for _, secrets := range [][]string{{public}, {secret, public}} {
		if err := verify("{}", "msg_1", "orders", good, secrets...); err != nil {
			t.Error(err)
		}
	}
	for name, err := range map[string]error{
		"another body":      verify("{ }", "msg_1", "orders", good, public),
		"a secret":          verify("{}", "msg_1", "orders", good, secret),
		"another key":       verify("{}", "msg_1", "orders", good, "whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="),
		"another id":        verify("{}", "msg_2", "orders", good, public),
		"another topic":     verify("{}", "msg_1", "hooks", good, public),
		"another version":   verify("{}", "msg_1", "orders", strings.Replace(good, "v1a,", "v1,", 1), public),
		"no real signature": verify("{}", "msg_1", "orders", "v1a, v1a,AAAA v1a", public),
	} {
		if err == nil || !strings.Contains(err.Error(), "no signature") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []string{"whpk_", "whpk_AAAA", "whpk_?", "whpk_" + public} {
		if err := verify("{}", "msg_1", "orders", good, bad); err == nil || !strings.Contains(err.Error(), "whpk_ and 32 bytes") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestWhatIsSignedIsTakenAndNothingElse(t *testing.T) {
	now := time.Now()
	good := signature(secret, "msg_1", body, now)
	cases := map[string]struct {
		header  http.Header
		body    string
		secrets []string
		says    string // "" where it is good
	}{
		"good":                   {headers(now, good), body, []string{secret}, ""},
		"one of several":         {headers(now, "v2,abc", signature(other, "msg_1", body, now), good), body, []string{secret}, ""},
		"an older secret":        {headers(now, good), body, []string{other, secret}, ""},
		"a little late":          {headers(now.Add(-4*time.Minute), signature(secret, "msg_1", body, now.Add(-4*time.Minute))), body, []string{secret}, ""},
		"another body":           {headers(now, good), body + " ", []string{secret}, "no signature"},
		"another secret":         {headers(now, good), body, []string{other}, "no signature"},
		"another id":             {headers(now, signature(secret, "msg_2", body, now)), body, []string{secret}, "no signature"},
		"another version":        {headers(now, "v1a"+good[2:]), body, []string{secret}, "no signature"},
		"no base64":              {headers(now, "v1,***"), body, []string{secret}, "no signature"},
		"too old":                {headers(now.Add(-time.Hour), signature(secret, "msg_1", body, now.Add(-time.Hour))), body, []string{secret}, "5m0s"},
		"in the future":          {headers(now.Add(time.Hour), signature(secret, "msg_1", body, now.Add(time.Hour))), body, []string{secret}, "5m0s"},
		"no headers":             {http.Header{}, body, []string{secret}, "not all there"},
		"no secret":              {headers(now, good), body, nil, "no secret"},
		"an empty secret":        {headers(now, good), body, []string{""}, "base64"},
		"a secret that is wrong": {headers(now, good), body, []string{"whsec_!"}, "base64"},
	}
	for name, c := range cases {
		err := Verify([]byte(c.body), c.header, c.secrets...)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestATopicIsVerifiedWithTheBody(t *testing.T) {
	now := time.Now()
	tag := func(with, topic string) string { return sign(with, fmt.Sprintf("msg_1:%d:%s", now.Unix(), topic)) }
	cases := map[string]struct {
		topic, ofTopic, body, says string
	}{
		"good":            {"orders", tag(secret, "orders"), body, ""},
		"one of several":  {"orders", tag(other, "orders") + " " + tag(secret, "orders"), body, ""},
		"another topic":   {"orders", tag(secret, "hooks"), body, "this topic"},
		"another secret":  {"orders", tag(other, "orders"), body, "this topic"},
		"another version": {"orders", "v2" + tag(secret, "orders")[2:], body, "this topic"},
		"no signature":    {"orders", "", body, "not both there"},
		"no topic":        {"", tag(secret, "orders"), body, "not both there"},
		"another body":    {"orders", tag(secret, "orders"), body + " ", "this body"},
	}
	for name, c := range cases {
		header := headers(now, signature(secret, "msg_1", body, now))
		for name, value := range map[string]string{"Dueq-Topic": c.topic, "Dueq-Signature": c.ofTopic} {
			if value != "" {
				header.Set(name, value)
			}
		}
		err := Verify([]byte(c.body), header, secret)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestARequestIsReadAndVerified(t *testing.T) {
	now := time.Now()
	request := httptest.NewRequest("POST", "/", strings.NewReader(body))
	request.Header = headers(now, signature(secret, "msg_1", body, now))
	if got, err := Read(request, secret); err != nil || string(got) != body {
		t.Error(string(got), err)
	}
	request = httptest.NewRequest("POST", "/", strings.NewReader(body))
	request.Header = headers(now, signature(other, "msg_1", body, now))
	if got, err := Read(request, secret); err == nil || got != nil {
		t.Errorf("%q beside the error %v", got, err)
	}
}

func TestAHandlerGetsVerifiedRequestsOnly(t *testing.T) {
	var got []string
	handler := Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		got = append(got, string(body))
		if err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusAccepted)
	}), other, secret)
	now := time.Now()
	for signature, status := range map[string]int{
		signature(secret, "msg_1", body, now): http.StatusAccepted, signature(secret, "msg_1", "{}", now): http.StatusUnauthorized,
	} {
		request := httptest.NewRequest("POST", "/", strings.NewReader(body))
		request.Header = headers(now, signature)
		answer := httptest.NewRecorder()
		if handler.ServeHTTP(answer, request); answer.Code != status {
			t.Errorf("%d, and not %d: %s", answer.Code, status, answer.Body)
		}
	}
	if len(got) != 1 || got[0] != body {
		t.Errorf("%q", got)
	}
}

package dueq

import (
	"testing"
	"time"
)

func TestAWorkerLeavesTheServerAloneAsLongAsItAsksButForAMinuteAtMost(t *testing.T) {
	for asked, want := range map[time.Duration]time.Duration{7 * time.Second: 7 * time.Second, time.Hour: time.Minute} {
		if got := pause(0, &ProblemError{Status: 503, RetryAfter: asked}); got != want {
			t.Errorf("%s became %s", asked, got)
		}
	}
	if got := pause(100, nil); got < 0 || got > 5*time.Second {
		t.Error(got)
	}
}

package dueq

import (
	"context"
	"errors"
	"sync"
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

func TestALoopThatEndsWakesOneThatWaitsForRoom(t *testing.T) {
	for what, ends := range map[string]func(r *run, want int) (goesOn bool){
		"it got nothing": func(r *run, want int) bool { return r.leaseAnswered(want, nil, &leaseAnswer{}) },
		"it failed":      func(r *run, want int) bool { return r.leaseFailed(want, nil, errors.New("away")) },
	} {
		handle := func(context.Context, *LeasedMessage) error { return nil }
		r, err := newRun(context.Background(), NewWorker(NewClient(""), "t", handle))
		if err != nil {
			t.Fatal(err)
		}
		asleep := make(chan bool)
		r.room.L = &tellingLock{Locker: &r.mu, unlocked: asleep}
		r.loopCount, r.running = 2, 6
		want, _, _ := r.reserve()
		got := make(chan int)
		go func() {
			want, _, _ := r.reserve() // one handler is left, which is not worth a request beside another
			got <- want
		}()
		<-asleep
		if ends(r, want) || r.loopCount != 1 {
			t.Errorf("%s: it goes on", what)
		}
		select {
		case want := <-got:
			if want != 3 {
				t.Errorf("%s: the other asks for %d", what, want)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("%s: the other sleeps on", what)
		}
	}
}

// tellingLock tells when a [sync.Cond] unlocks it: whoever waits is on its list by then.
type tellingLock struct {
	sync.Locker
	unlocked chan bool
}

func (l *tellingLock) Unlock() {
	l.Locker.Unlock()
	l.unlocked <- true
}

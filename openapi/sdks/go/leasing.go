package dueq

// Asking for messages. While idle there is one lease loop, hanging in one long poll; every full answer starts another. There are
// few, so that under load each asks for all handlers that have become free meanwhile. Acks ride on these requests.

import (
	"errors"
	"math/rand/v2"
	"time"
)

// leaseMargin is what a lease request may take beyond its wait before the connection counts as dead.
const leaseMargin = 15 * time.Second

// mostLoops is how many lease requests are under way at most.
const mostLoops = 4

func (r *run) leaseLoop() {
	defer r.loops.Done()
	for {
		want, acks, ok := r.reserve()
		if !ok {
			return
		}
		answer, err := r.requestLease(want, acks)
		if err != nil {
			ok = r.leaseFailed(want, acks, err)
		} else {
			ok = r.leaseAnswered(want, acks, answer) && (!r.untilEmpty || len(answer.Messages) > 0 || r.more())
		}
		if !ok {
			return
		}
	}
}

// reserve waits until messages may be held, and takes the acks that the request for them is to carry.
func (r *run) reserve() (want int, acks []settlement, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !closed(r.stopping) && !r.hasRoom() {
		r.room.Wait()
	}
	if closed(r.stopping) {
		return 0, nil, false
	}
	want = min(r.batch, r.free())
	r.reserved += want
	r.news = false
	return want, r.acks.take(), true
}

func (r *run) free() int {
	return r.limit - r.running - len(r.waiting) - r.reserved
}

// hasRoom tells whether a request is worth making. A busy worker does not ask for messages one by one: it waits for half of what
// is prefetched (the other half waits here meanwhile, so that no handler does), and beside another request for half a batch.
func (r *run) hasRoom() bool {
	worth := (r.prefetch + 1) / 2
	if r.reserved > 0 {
		worth = (r.batch + 1) / 2
	}
	return r.free() >= worth
}

func (r *run) requestLease(want int, acks []settlement) (*leaseAnswer, error) {
	wait := r.wait
	r.mu.Lock()
	if r.failures > 0 || r.untilEmpty { // after a failure, so that it is soon known that the server answers again
		wait = 0
	}
	r.mu.Unlock()
	body, err := r.post(r.leases, wait+leaseMargin, r.toLease, leaseBody(r.topics, want, r.lease, wait, acks))
	if err != nil {
		return nil, err
	}
	return parseLease(body)
}

// leaseAnswered tells whether the loop goes on.
func (r *run) leaseAnswered(want int, acks []settlement, answer *leaseAnswer) bool {
	arrived := time.Now()
	count := len(answer.Messages)
	if count > 0 {
		r.leased(count)
	}
	again, lost := sortOut(acks, answer.Acks)

	r.mu.Lock()
	r.failures = 0
	r.reserved -= want
	lost = append(lost, r.again(&r.acks, again, arrived)...)
	r.admit(answer.Messages, arrived)
	goOn := true
	switch {
	case closed(r.stopping):
		goOn = false
	case count >= want && r.loopCount < r.maxLoops:
		r.loopCount++
		r.loops.Add(1)
		go r.leaseLoop()
	case count == 0 && r.loopCount > 1:
		r.loopCount--
		r.room.Signal() // the last one must not sleep while there is room
		goOn = false
	}
	r.mu.Unlock()
	r.lost(lost...)
	return goOn
}

// more is for the last loop when nothing was ready: it waits until something may be. If nothing is held or to be told that could
// still change that, the topics are empty: Run ends, and more is false.
func (r *run) more() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !closed(r.stopping) && !r.news && !r.quiet() {
		r.room.Wait()
	}
	if !r.news {
		r.end()
	}
	return r.news
}

// quiet tells whether nothing is held, and nothing to be told. The lock is held.
func (r *run) quiet() bool {
	return r.running == 0 && len(r.waiting) == 0 && !r.telling && len(r.acks.list) == 0 && len(r.nacks.list) == 0
}

// leaseFailed tells whether the loop goes on. Only the last loop tries again: what hinders one hinders all, and a server that
// comes back is better met by one request than by hundreds.
func (r *run) leaseFailed(want int, acks []settlement, err error) bool {
	r.mu.Lock()
	r.reserved -= want
	lost := r.again(&r.acks, acks, time.Now())
	r.news = true // for all that this request could tell
	last := r.loopCount == 1
	if !last {
		r.loopCount--
		r.room.Signal()
	}
	failures := r.failures
	if last {
		r.failures++
	}
	r.mu.Unlock()
	r.lost(lost...)

	if r.leases.Err() != nil { // aborted by stop
		return false
	}
	r.troubled(err)
	if hopeless(err) {
		r.fail(err)
		return false
	}
	if last {
		sleep(pause(failures, err), r.stopping)
	}
	return last
}

// hopeless tells whether making the request again cannot help: the server refused it, and not because of its own state.
func hopeless(err error) bool {
	var problem *ProblemError
	return errors.As(err, &problem) && !problem.passes()
}

// backoff is how long to wait after so many failures: anything up to 100 ms doubled each time, 5 s at most ("full jitter"), and
// what the server asked for at least.
func backoff(failures int, err error) time.Duration {
	delay := rand.N(min(100*time.Millisecond<<min(failures, 6), 5*time.Second))
	var problem *ProblemError
	if errors.As(err, &problem) {
		delay = max(delay, problem.RetryAfter)
	}
	return delay
}

// longestPause is how long a worker leaves the server alone at most: a proxy's Retry-After may be of hours.
const longestPause = time.Minute

// pause is the backoff of a worker.
func pause(failures int, err error) time.Duration {
	return min(backoff(failures, err), longestPause)
}

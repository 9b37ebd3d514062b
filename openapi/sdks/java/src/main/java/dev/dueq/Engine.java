package dev.dueq;

import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * The worker's heart: which requests are sent when. All state is guarded by one lock, which is held for microseconds; requests,
 * handlers and hooks run outside of it (see {@link Todo}). The thread that calls {@link #run} keeps the time; everything else
 * happens where an answer arrives or a handler returns.
 */
final class Engine {
  private static final long MS = 1_000_000;
  /** How long lease requests may still be answered after a stop. */
  private static final long STOP_LEASES = 500 * MS;
  /** How long acks and nacks are repeated after the last handler. */
  private static final long STOP_SETTLES = 5000 * MS;
  /** How often requests are looked at that nobody answers. */
  private static final long WATCH = 1000 * MS;
  /** An empty answer that came this early is not worth asking again at once: the server may be stopping. */
  private static final long EARLY_MS = 100;
  /** An answer takes no longer, so that a lease of 30 s can be extended again after a request that nobody answered. */
  private static final Duration PATIENCE = Duration.ofSeconds(15);
  /** Lease requests under way, at most: few, so that under load each asks for all handlers that have become free meanwhile. */
  private static final int MOST_LOOPS = 4;

  private final Worker.Builder options;
  private final Duration timeout;
  private final int limit;
  /** Messages that a lease request asks for, at most. */
  private final int batch;
  private final int mostLoops;
  private final Lifetime lifetime = new Lifetime();

  final ReentrantLock lock = new ReentrantLock();
  private final Condition wake = lock.newCondition();
  private long wakeAt;

  final Settling acks = new Settling(Call.Kind.ACK);
  final Settling nacks = new Settling(Call.Kind.NACK);
  private final Backoff backoff = new Backoff();
  private final Leases leases = new Leases(this);
  private final Crew crew;
  private final Set<Call> calls = new HashSet<>();
  private long watchAt;
  private int loops;
  private int wantedLoops = 1;
  private int asked;
  /** The lease request under way is the only one, and was sent when nothing was held or to be settled. */
  private boolean last;

  private boolean stopping;
  private boolean leasesCancelled;
  private boolean crewCancelled;
  private long stopAt;
  private boolean settling;
  private long settleUntil;
  private RuntimeException fatal;

  Engine(Worker.Builder options) {
    this.options = options;
    Duration given = options.client.timeout();
    timeout = given.compareTo(PATIENCE) < 0 ? given : PATIENCE;
    limit = options.prefetch == 1 ? options.concurrency : options.concurrency + options.prefetch;
    batch = Math.max(options.prefetch, Math.min((options.concurrency + MOST_LOOPS - 1) / MOST_LOOPS, 1000));
    mostLoops = Math.min(MOST_LOOPS, (limit + batch - 1) / batch);
    crew = new Crew(this, options);
  }

  // From outside.

  void run() {
    Runnable onClose = () -> fail(options.client.wasClosed());
    options.client.workers().add(onClose);
    try {
      runUntilStopped();
    } finally {
      options.client.workers().remove(onClose);
    }
  }

  private void runUntilStopped() {
    options.client.requireOpen();
    if (!lifetime.begin(options.stopOnShutdown ? this::stop : null)) {
      return;
    }
    boolean interrupted = keepTime();
    crew.close();
    lifetime.end();
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
    if (fatal != null) {
      throw fatal;
    }
  }

  void stop() {
    lock.lock();
    try {
      beginStop(System.nanoTime());
    } finally {
      lock.unlock();
    }
  }

  void awaitEnd() {
    lifetime.awaitEnd();
  }

  // The clock.

  private boolean keepTime() {
    boolean interrupted = false;
    while (true) {
      Todo todo = new Todo();
      boolean over = false;
      lock.lock();
      try {
        long now = System.nanoTime();
        over = step(now, todo);
        if (!over && todo.isEmpty()) {
          wakeAt = next(now);
          wake.awaitNanos(wakeAt - now);
        }
      } catch (InterruptedException stop) {
        interrupted = true;
        beginStop(System.nanoTime());
      } finally {
        lock.unlock();
      }
      tell(todo);
      crew.start(todo);
      if (over) {
        return interrupted;
      }
    }
  }

  /** What has become due. Returns whether all is over. */
  private boolean step(long now, Todo todo) {
    leases.look(now, todo);
    if (now - watchAt >= 0) {
      watchAt = now + WATCH;
      calls.stream().filter(call -> now - call.expiresAt >= 0).toList().forEach(todo.cancelled::add);
    }
    pump(now, todo);
    if (backoff.passed(now)) {
      settle(acks, now, todo);
      settle(nacks, now, todo);
    }
    return stopping && stopped(now, todo);
  }

  private void settle(Settling settling, long now, Todo todo) {
    if (!settling.isEmpty() && !settling.flying && now - settling.due() >= 0) {
      settling.flying = true;
      call(settling.kind, settling.take(), now, todo);
    }
  }

  private long next(long now) {
    long at = earlier(now, now + WATCH, leases.next(now + WATCH));
    for (Settling settling : List.of(acks, nacks)) {
      if (!settling.isEmpty() && !settling.flying) {
        at = earlier(now, at, backoff.passed(now) ? settling.due() : backoff.until());
      }
    }
    if (!backoff.passed(now)) {
      at = earlier(now, at, backoff.until());
    }
    if (stopping) {
      at = leasesCancelled ? at : earlier(now, at, stopAt + STOP_LEASES);
      at = crewCancelled ? at : earlier(now, at, stopAt + options.stopTimeout.toNanos());
      at = settling ? earlier(now, at, settleUntil) : at;
    }
    return at;
  }

  private static long earlier(long now, long one, long other) {
    return one - now <= other - now ? one : other;
  }

  /** Something will be due then. */
  void due(long at) {
    if (at - wakeAt < 0) {
      wakeAt = at;
      wake.signal();
    }
  }

  // Leasing.

  /** Sends lease requests as long as there is room for what they ask for. */
  private void pump(long now, Todo todo) {
    boolean unsettled = acks.flying || nacks.flying || !nacks.isEmpty();
    if (options.untilEmpty && crew.held() == 0 && unsettled) {
      return; // What is given back may be due at once.
    }
    while (!stopping && loops < wantedLoops && backoff.passed(now)) {
      int free = limit - crew.held() - asked;
      // A busy worker does not ask for messages one by one: it waits for half of what is prefetched (the other half waits here
      // meanwhile, so that no handler does), and beside another request for half a batch.
      int worth = ((asked > 0 ? batch : options.prefetch) + 1) / 2;
      if (free < worth) {
        return;
      }
      int count = Math.min(batch, free);
      List<Held> riding = acks.take();
      last = crew.held() == 0 && loops == 0 && wantedLoops == 1 && acks.isEmpty();
      loops++;
      asked += count;
      call(Call.Kind.LEASE, riding, count, now, todo);
    }
  }

  /** Sends a request about leases once the lock is free. */
  void call(Call.Kind kind, List<Held> held, long now, Todo todo) {
    call(kind, held, 0, now, todo);
  }

  private void call(Call.Kind kind, List<Held> held, int asked, long now, Todo todo) {
    boolean lease = kind == Call.Kind.LEASE;
    Call call = new Call(kind, held, asked, now, timeout.plusMillis(lease ? options.leaseWaitMs() : 0));
    calls.add(call);
    todo.calls.add(call);
  }

  /** A message was handled, or settled: there may be more now, which a worker that works until there are none asks for at once. */
  void changed(long now) {
    if (options.untilEmpty) {
      backoff.resume(now);
    }
  }

  /** A handler returned, or is about to begin. */
  void turned(long now, Todo todo) {
    pump(now, todo);
    due(stopping ? now : next(now));
  }

  Crew crew() {
    return crew;
  }

  Leases leases() {
    return leases;
  }

  private void leased(Call call, Wire.Leased answer, long now, Todo todo) {
    int count = answer.messages().size();
    todo.lost.addAll(acks.settled(call.held, answer.acks(), now));
    if (count == 0) {
      boolean idle = options.untilEmpty && crew.held() == 0 && acks.isEmpty();
      wantedLoops = options.untilEmpty ? 1 : Math.max(1, wantedLoops - 1);
      if (idle && last) {
        beginStop(now);
      } else if (!idle && now - call.sentAt < EARLY_MS * MS) {
        backoff.pause(now, EARLY_MS);
      }
      return;
    }
    if (count >= call.asked) {
      wantedLoops = Math.min(mostLoops, wantedLoops + 1);
    }
    todo.leased = count;
    for (Held held : answer.messages()) {
      if (stopping) {
        release(held, now);
      } else {
        leases.add(held);
        crew.add(held);
      }
    }
    crew.wake(todo);
  }

  // Answers.

  /** Cancels what is to be cancelled, and tells the hooks. */
  void tell(Todo todo) {
    todo.cancelled.forEach(Call::cancel);
    todo.told(options.hooks, options.client.url());
  }

  /** A request was answered, or failed. */
  Todo answered(Call call, Requests.Answer answer) {
    Todo todo = new Todo();
    long now = System.nanoTime();
    lock.lock();
    try {
      arrived(call, answer, now, todo);
      turned(now, todo);
    } finally {
      lock.unlock();
    }
    return todo;
  }

  private void arrived(Call call, Requests.Answer answer, long now, Todo todo) {
    if (!calls.remove(call)) {
      return;
    }
    Settling settling = call.kind == Call.Kind.NACK ? nacks : acks;
    switch (call.kind) {
      case LEASE -> {
        loops--;
        asked -= call.asked;
      }
      case ACK, NACK -> settling.flying = false;
      case EXTEND -> {}
    }
    Throwable error = answer.error();
    if (error == null) {
      switch (call.kind) {
        case LEASE -> leased(call, answer.leased(), now, todo);
        case ACK, NACK -> {
          todo.lost.addAll(settling.settled(call.held, answer.results(), now));
          changed(now);
        }
        case EXTEND -> leases.extended(call, answer.results(), now, todo);
      }
      todo.back = backoff.succeeded();
      return;
    }
    boolean refused = error instanceof ProblemException problem && !problem.passes();
    if (call.kind == Call.Kind.EXTEND) {
      leases.notExtended(call.held, now);
    } else {
      wantedLoops = 1;
      if (call.kind == Call.Kind.LEASE || !refused) {
        settling.back(call.held, now);
      }
    }
    if (refused) {
      fail((ProblemException) error);
    } else if (!(stopping && error instanceof CancellationException)
        && (call.kind == Call.Kind.EXTEND || backoff.failed(call.sentAt, now, error))) {
      boolean unanswered = error instanceof CancellationException;
      todo.error =
          unanswered ? new RequestTimeoutException(options.client.url(), call.operation(), call.timeout, error) : error;
      todo.away = call.kind != Call.Kind.EXTEND && backoff.begins();
    }
  }

  // Stopping.

  void fail(RuntimeException error) {
    lock.lock();
    try {
      if (fatal == null) {
        fatal = error;
      }
      beginStop(System.nanoTime());
    } finally {
      lock.unlock();
    }
  }

  private void beginStop(long now) {
    if (!stopping) {
      stopping = true;
      stopAt = now;
      acks.hurry(now);
      nacks.hurry(now);
      for (Held held : crew.dismissWaiting()) {
        release(held, now);
      }
    }
    due(now);
  }

  /** Gives a message back unworked. */
  private void release(Held held, long now) {
    leases.remove(held);
    held.state = Held.State.SETTLING;
    held.release = true;
    nacks.add(held, now);
  }

  /** Goes on with stopping. Returns whether it is done. */
  private boolean stopped(long now, Todo todo) {
    if (!leasesCancelled && now - stopAt >= STOP_LEASES) {
      leasesCancelled = true;
      calls.stream().filter(call -> call.kind == Call.Kind.LEASE).forEach(todo.cancelled::add);
    }
    if (!crewCancelled && crew.runners() > 0 && now - stopAt >= options.stopTimeout.toNanos()) {
      crewCancelled = true;
      for (Held held : leases.all()) {
        crew.cancel(held);
        release(held, now);
      }
    }
    boolean leasing = loops > 0 && now - stopAt < STOP_LEASES + WATCH;
    if (leasing || (crew.runners() > 0 && !crewCancelled)) {
      return false;
    }
    if (!settling) {
      settling = true;
      settleUntil = now + STOP_SETTLES;
    }
    if (now - settleUntil >= 0) {
      todo.cancelled.addAll(calls);
      return true;
    }
    return acks.isEmpty() && nacks.isEmpty() && !acks.flying && !nacks.flying;
  }
}

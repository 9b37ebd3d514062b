package dev.dueq;

import java.lang.reflect.Method;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Runs the handlers. A runner is a task that handles waiting messages one after another until there are none; there are never more
 * runners than handlers may run at once. State is guarded by the engine's lock.
 */
final class Crew {
  /** How many runners are woken at once; each wakes as many more, so that a batch of small messages does not wake them all. */
  private static final int WAKE = 2;

  private static final int LONGEST_REASON = 1024;

  private final Engine engine;
  private final Handler handler;
  private final Hooks hooks;
  private final int concurrency;
  private final Requests requests;
  /** Threads of the worker's own. */
  private final ExecutorService threads;

  /** The same, unless the user gave others. */
  private final ExecutorService handlers;

  private final boolean own;
  private final ArrayDeque<Held> waiting = new ArrayDeque<>();
  private int runners;
  private int busy;

  Crew(Engine engine, Worker.Builder options) {
    this.engine = engine;
    handler = options.handler();
    hooks = options.hooks;
    concurrency = options.concurrency;
    own = options.executor == null;
    requests = new Requests(options);
    threads = threads(String.join("+", options.topics));
    handlers = own ? threads : options.executor;
  }

  /** How many messages wait or are being handled. */
  int held() {
    return waiting.size() + busy;
  }

  int runners() {
    return runners;
  }

  void add(Held held) {
    waiting.add(held);
  }

  /** Wakes runners for what waits. */
  void wake(Todo todo) {
    int more = Math.min(WAKE, Math.min(waiting.size(), concurrency - runners));
    if (more > 0) {
      runners += more;
      todo.runners += more;
    }
  }

  /** Nothing that waits is begun any more. */
  List<Held> dismissWaiting() {
    List<Held> dismissed = new ArrayList<>(waiting);
    waiting.clear();
    return dismissed;
  }

  void lose(Held held) {
    if (held.state == Held.State.WAITING) {
      waiting.remove(held);
    }
    cancel(held);
    held.state = Held.State.LOST;
  }

  /** Tells a handler that its message is no longer its own. */
  void cancel(Held held) {
    held.lost = true;
    if (held.thread != null) {
      held.thread.interrupt();
    }
  }

  void close() {
    threads.shutdown();
  }

  /** Has threads do what is to be done. Outside of the lock. */
  void start(Todo todo) {
    todo.calls.forEach(call -> threads.execute(() -> go(call)));
    for (int i = 0; i < todo.runners; i++) {
      try {
        handlers.execute(() -> go(null));
      } catch (RejectedExecutionException error) {
        engine.lock.lock();
        runners--;
        engine.lock.unlock();
        engine.fail(error);
      }
    }
  }

  /**
   * Waits for the answer to a request, or, without one, runs handlers. What is to be done after that needs no other thread where
   * this one can do it: under load a thread leases a message, handles it, and sends its ack with the next lease request.
   */
  private void go(Call first) {
    Call call = first;
    try {
      while (true) {
        boolean mayWait = call != null || own;
        Todo todo = call == null ? work() : engine.answered(call, requests.exchange(call));
        engine.tell(todo);
        boolean runs = own && todo.runners > 0;
        if (runs) {
          todo.runners--;
          call = null;
        } else {
          call = mayWait && !todo.calls.isEmpty() ? todo.calls.remove(0) : null;
        }
        start(todo);
        if (!runs && call == null) {
          return;
        }
      }
    } catch (RuntimeException | Error bug) {
      engine.fail(new IllegalStateException("the worker failed", bug));
    }
  }

  /** Handles messages until none waits. Returns what is to be done then. */
  private Todo work() {
    Held held = null;
    Throwable error = null;
    while (true) {
      Todo todo = new Todo();
      engine.lock.lock();
      try {
        long now = System.nanoTime();
        if (held != null) {
          finish(held, error, now);
        }
        held = take(now, todo);
        if (held == null) {
          runners--;
        } else {
          wake(todo);
        }
        engine.turned(now, todo);
      } finally {
        engine.lock.unlock();
      }
      if (held == null) {
        return todo;
      }
      engine.tell(todo);
      start(todo);
      error = handle(held);
    }
  }

  private Held take(long now, Todo todo) {
    Held held;
    while ((held = waiting.poll()) != null) {
      if (now - held.deadline < 0) {
        held.state = Held.State.RUNNING;
        held.thread = Thread.currentThread();
        busy++;
        return held;
      }
      engine.leases().lose(held, todo);
    }
    return null;
  }

  private Throwable handle(Held held) {
    Delivery message = held.message;
    tell(() -> hooks.onStart(message));
    long begun = System.nanoTime();
    Trace.begin(message);
    try {
      handler.handle(message, held);
    } catch (Throwable error) {
      if (!held.lost) {
        tell(() -> hooks.onFailed(message, error));
      }
      return error;
    } finally {
      Trace.end();
    }
    if (!held.lost) {
      long ms = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begun);
      tell(() -> hooks.onDone(message, ms));
    }
    return null;
  }

  private void finish(Held held, Throwable error, long now) {
    busy--;
    engine.changed(now);
    held.thread = null;
    // Interrupts come under the lock and only to `held.thread`, so that none of them reaches the next handler.
    Thread.interrupted();
    if (held.state != Held.State.RUNNING) {
      return;
    }
    engine.leases().remove(held);
    held.state = Held.State.SETTLING;
    if (error == null) {
      engine.acks.add(held, now);
      return;
    }
    if (error instanceof RetryIn retry) {
      held.delayMs = retry.milliseconds();
    }
    held.dead = error instanceof Dead;
    held.reason = reason(error);
    engine.nacks.add(held, now);
  }

  /** The error's message, no longer than dueq takes it. */
  private static String reason(Throwable error) {
    String message = error.getMessage();
    if (message == null || message.isBlank()) {
      return error instanceof RetryIn || error instanceof Dead ? null : error.getClass().getName();
    }
    StringBuilder reason = new StringBuilder(Math.min(message.length(), LONGEST_REASON));
    // Half a surrogate pair is no character and cannot be sent.
    message
        .codePoints()
        .limit(LONGEST_REASON)
        .map(c -> c >= Character.MIN_SURROGATE && c <= Character.MAX_SURROGATE ? 0xFFFD : c)
        .forEach(reason::appendCodePoint);
    return reason.toString();
  }

  /** A hook that throws is its own affair. */
  static void tell(Runnable hook) {
    try {
      hook.run();
    } catch (RuntimeException | Error ignored) {
      // There is nobody to tell: the hooks are who is told.
    }
  }

  /** Virtual threads where the JDK has them, which this code, compiled for 17, cannot name. */
  private static ExecutorService threads(String topics) {
    try {
      Method virtual = Executors.class.getMethod("newVirtualThreadPerTaskExecutor");
      return (ExecutorService) virtual.invoke(null);
    } catch (ReflectiveOperationException | UnsupportedOperationException older) {
      AtomicInteger count = new AtomicInteger();
      return Executors.newCachedThreadPool(
          task -> {
            Thread thread = new Thread(task, "dueq-" + topics + "-" + count.incrementAndGet());
            thread.setDaemon(true);
            return thread;
          });
    }
  }
}

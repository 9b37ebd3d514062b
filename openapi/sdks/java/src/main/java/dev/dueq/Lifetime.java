package dev.dueq;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;

/** That a worker runs once, stops in good order when the program ends, and that its end can be waited for. */
final class Lifetime {
  private enum State {
    NEW,
    BEGUN,
    /** Closed before it began. */
    CLOSED
  }

  private final AtomicReference<State> state = new AtomicReference<>(State.NEW);
  private final CountDownLatch ended = new CountDownLatch(1);
  private Thread hook;

  /**
   * It begins.
   *
   * @param onShutdown what stops it when the program ends; null: nothing does
   * @return false when it was closed before
   * @throws IllegalStateException when it has begun before
   */
  boolean begin(Runnable onShutdown) {
    State before = state.compareAndExchange(State.NEW, State.BEGUN);
    if (before == State.BEGUN) {
      throw new IllegalStateException("a worker runs once");
    }
    if (before == State.CLOSED) {
      return false;
    }
    if (onShutdown != null) {
      hook = new Thread(() -> stop(onShutdown), "dueq-stop");
      Runtime.getRuntime().addShutdownHook(hook);
    }
    return true;
  }

  /** It is over. */
  void end() {
    ended.countDown();
    if (hook != null) {
      try {
        Runtime.getRuntime().removeShutdownHook(hook);
      } catch (IllegalStateException shuttingDown) {
        // Then it has run, or is waiting for what just happened.
      }
    }
  }

  /** Waits until it is over; what has not begun never will. */
  void awaitEnd() {
    if (state.compareAndSet(State.NEW, State.CLOSED)) {
      ended.countDown();
    }
    try {
      ended.await();
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    }
  }

  private void stop(Runnable how) {
    how.run();
    awaitEnd();
  }
}

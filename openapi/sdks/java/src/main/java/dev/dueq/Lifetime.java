package dev.dueq;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;

/** That a worker runs once, stops in good order when the program ends, and that its end can be waited for. */
final class Lifetime {
  private final AtomicBoolean begun = new AtomicBoolean();
  private final CountDownLatch ended = new CountDownLatch(1);
  private Thread hook;

  /**
   * It begins.
   *
   * @param onShutdown what stops it when the program ends; null: nothing does
   * @throws IllegalStateException when it has begun before, or was over before it began
   */
  void begin(Runnable onShutdown) {
    if (!begun.compareAndSet(false, true)) {
      throw new IllegalStateException("a worker runs once");
    }
    if (onShutdown != null) {
      hook = new Thread(() -> stop(onShutdown), "dueq-stop");
      Runtime.getRuntime().addShutdownHook(hook);
    }
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
    if (begun.compareAndSet(false, true)) {
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

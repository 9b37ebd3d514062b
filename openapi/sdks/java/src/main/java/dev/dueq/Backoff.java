package dev.dueq;

import java.util.concurrent.ThreadLocalRandom;

/** How long to leave a server alone that does not answer, or refuses for now. Guarded by the engine's lock. */
final class Backoff {
  private static final long FIRST_MS = 100;
  private static final long LONGEST_MS = 5000;

  private int failures;
  private long failedAt;
  private long until = System.nanoTime();

  /** When requests may be sent again, by System.nanoTime. */
  long until() {
    return until;
  }

  boolean passed(long now) {
    return now - until >= 0;
  }

  void succeeded() {
    failures = 0;
  }

  /** At least that long, without there being a failure. */
  void pause(long now, long ms) {
    later(now + ms * 1_000_000);
  }

  /**
   * A request failed. Many that were under way together count as one failure.
   *
   * @return whether it is news
   */
  boolean failed(long sentAt, long now, Throwable error) {
    boolean news = failures == 0 || sentAt - failedAt >= 0;
    if (news) {
      failures = Math.min(failures + 1, 10);
      failedAt = now;
      long most = Math.min(FIRST_MS << (failures - 1), LONGEST_MS);
      later(now + ThreadLocalRandom.current().nextLong(most * 1_000_000 + 1));
    }
    if (error instanceof ProblemException problem) {
      problem.retryAfter().ifPresent(least -> later(now + least.toNanos()));
    }
    return news;
  }

  private void later(long time) {
    if (time - until > 0) {
      until = time;
    }
  }
}

package dev.dueq;

import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/** How long to leave a server alone that does not answer, or refuses for now. Guarded by the engine's lock. */
final class Backoff {
  private static final long FIRST_MS = 100;
  private static final long LONGEST_MS = 5000;
  /** However long a server asks to be left alone, a worker looks again after this. */
  private static final long LONGEST_NANOS = TimeUnit.SECONDS.toNanos(60);

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

  /** Returns whether there were failures before. */
  boolean succeeded() {
    boolean failed = failures > 0;
    failures = 0;
    return failed;
  }

  /** Whether the last failure was the first in a row. */
  boolean begins() {
    return failures == 1;
  }

  /** At least that long, without there being a failure. */
  void pause(long now, long ms) {
    later(now + ms * 1_000_000);
  }

  /** Such a pause is over. */
  void resume(long now) {
    if (failures == 0 && now - until < 0) {
      until = now;
    }
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
      later(now + Math.min(delay(failures, error), LONGEST_NANOS));
    } else {
      later(now + Math.min(retryAfter(error), LONGEST_NANOS));
    }
    return news;
  }

  /** Nanoseconds to wait after so many failures in a row: at random up to a bound that doubles, or longer if the server says so. */
  private static long delay(int failures, Throwable error) {
    long most = Math.min(FIRST_MS << Math.min(failures - 1, 10), LONGEST_MS);
    long random = ThreadLocalRandom.current().nextLong(most * 1_000_000 + 1);
    return Math.max(random, retryAfter(error));
  }

  private static long retryAfter(Throwable error) {
    return error instanceof ProblemException problem ? problem.retryAfter().map(Duration::toNanos).orElse(0L) : 0;
  }

  /** Waits before a request is repeated. Returns false at once when that would take it beyond the end. */
  static boolean sleep(int failures, Throwable error, long end) throws InterruptedException {
    long nanos = delay(failures, error);
    if (System.nanoTime() + nanos - end >= 0) {
      return false;
    }
    TimeUnit.NANOSECONDS.sleep(nanos);
    return true;
  }

  private void later(long time) {
    if (time - until > 0) {
      until = time;
    }
  }
}

package dev.dueq;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpHeaders;
import java.net.http.HttpTimeoutException;
import java.time.Duration;
import java.util.List;
import java.util.Map;

/** What shows outside only after a minute, or before a network that swallows packets. */
public final class Inside {
  private Inside() {}

  public static void run() {
    silence();
    refused();
  }

  /** A worker looks again after a minute at the latest, by the first failure as by those that come with it. */
  private static void silence() {
    HttpHeaders headers = HttpHeaders.of(Map.of("Retry-After", List.of("3600")), (name, value) -> true);
    ProblemException problem = ProblemException.of(503, headers, new byte[0], new ObjectMapper());
    for (int failures : List.of(1, 2)) {
      Backoff backoff = new Backoff();
      long now = System.nanoTime();
      if (failures == 2) {
        backoff.failed(now, now, new HttpTimeoutException(""));
      }
      backoff.failed(now - 1, now, problem);
      check(backoff.until() - now == Duration.ofSeconds(60).toNanos());
    }
  }

  /** Where there was no connection, nothing was done. */
  private static void refused() {
    Duration timeout = Duration.ofSeconds(1);
    check(ConnectionException.of("", "", timeout, new HttpConnectTimeoutException("")).refused());
    check(!ConnectionException.of("", "", timeout, new HttpTimeoutException("")).refused());
  }

  private static void check(boolean good) {
    if (!good) {
      throw new AssertionError();
    }
  }
}

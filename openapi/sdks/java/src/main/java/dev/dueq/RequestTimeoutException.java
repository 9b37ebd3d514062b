package dev.dueq;

import java.time.Duration;

/** The server did not answer in time. Nobody knows whether it did what was asked. */
public final class RequestTimeoutException extends ConnectionException {
  private static final long serialVersionUID = 1L;

  private final Duration timeout;

  RequestTimeoutException(String url, String operation, Duration timeout, Throwable cause) {
    super("no answer from " + url + " in " + timeout.toMillis() + " ms", url, operation, cause);
    this.timeout = timeout;
  }

  /** How long the client waited for this answer. */
  public Duration timeout() {
    return timeout;
  }
}

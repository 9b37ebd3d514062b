package dev.dueq;

import dev.dueq.invoker.ApiException;
import java.io.IOException;
import java.net.ConnectException;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpTimeoutException;
import java.nio.channels.UnresolvedAddressException;
import java.time.Duration;
import java.util.concurrent.TimeoutException;

/**
 * No answer came: the server could not be reached, or the connection broke, or what answered is not dueq. The cause is the {@link
 * IOException}.
 *
 * <p>Unless the connection was refused, nobody knows whether the server did what was asked.
 */
public sealed class ConnectionException extends ApiException permits RequestTimeoutException {
  private static final long serialVersionUID = 1L;

  private final String url;
  private final String operation;

  ConnectionException(String message, String url, String operation, Throwable cause) {
    super(message + " (" + operation + ")", cause, 0, null);
    this.url = url;
    this.operation = operation;
  }

  /** The server's URL, as the client was given it. */
  public String url() {
    return url;
  }

  /** What was asked, for example {@code POST /topics/orders/messages}. */
  public String operation() {
    return operation;
  }

  /** What a failure of the HTTP client means. */
  static ConnectionException of(String url, String operation, Duration timeout, Exception error) {
    for (Throwable cause = error; cause != null; cause = cause.getCause()) {
      if (cause instanceof HttpTimeoutException || cause instanceof TimeoutException) {
        return new RequestTimeoutException(url, operation, timeout, error);
      }
    }
    return new ConnectionException("cannot reach " + url + ": " + reason(error), url, operation, error);
  }

  /** Something answered, but not as dueq does. */
  static ConnectionException unreadable(String url, String operation, Exception error) {
    return new ConnectionException("what answers at " + url + " is not dueq: " + reason(error), url, operation, error);
  }

  /** Whether there was no connection, so that the server cannot have done anything. */
  boolean refused() {
    return getCause() instanceof ConnectException || getCause() instanceof HttpConnectTimeoutException;
  }

  /** The HTTP client says little about connections that never were. */
  private static String reason(Throwable error) {
    for (Throwable cause = error; cause != null; cause = cause.getCause()) {
      if (cause instanceof UnresolvedAddressException) {
        return "unknown host";
      }
      if (cause.getMessage() != null) {
        return cause.getMessage();
      }
    }
    return error instanceof ConnectException ? "connection refused" : error.getClass().getSimpleName();
  }
}

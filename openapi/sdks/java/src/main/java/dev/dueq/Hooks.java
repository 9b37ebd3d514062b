package dev.dueq;

/**
 * What a worker tells, for logs and metrics. {@link #onFailed}, {@link #onLost}, {@link #onAway} and {@link #onBack} write to the
 * {@link System.Logger} {@value #LOGGER} unless overridden; the others do nothing. They are called on the worker's own threads and
 * should be quick; one that throws does not stop the worker.
 */
public interface Hooks {
  /** The name of the logger. */
  String LOGGER = "dev.dueq.worker";

  /**
   * Messages came.
   *
   * @param count how many, at least 1
   */
  default void onLease(int count) {}

  /** A handler is about to begin. */
  default void onStart(Delivery message) {}

  /**
   * A handler returned; the message will be acknowledged.
   *
   * @param ms how long the handler took, in milliseconds
   */
  default void onDone(Delivery message, long ms) {}

  /**
   * A handler threw; the message will be given back. Unless overridden, it is logged: with the stack when the error is unchecked,
   * which is mostly a mistake in the program.
   *
   * @param error a {@link RetryIn}, a {@link Dead}, or whatever else it threw
   */
  default void onFailed(Delivery message, Throwable error) {
    Log.failed(message, error);
  }

  /**
   * A lease was lost: the handler was interrupted, or never begun, or its acknowledgement came too late. Unless overridden, it is
   * logged.
   */
  default void onLost(Delivery message) {
    Log.lost(message);
  }

  /** A request failed and will be repeated: a {@link ProblemException} or a {@link ConnectionException}. */
  default void onError(Throwable error) {}

  /**
   * The server is away: told once, by the first request that fails. Unless overridden, it is logged.
   *
   * @param url of the server
   * @param error as {@link #onError} has it
   */
  default void onAway(String url, Throwable error) {
    Log.away(url, error);
  }

  /**
   * The server answers again: told once after {@link #onAway}. Unless overridden, it is logged.
   *
   * @param url of the server
   */
  default void onBack(String url) {
    Log.back(url);
  }
}

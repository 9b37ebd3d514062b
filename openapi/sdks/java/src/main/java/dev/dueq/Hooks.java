package dev.dueq;

/**
 * What a worker tells, for logs and metrics. Each does nothing unless overridden. They are called on the worker's own threads and
 * should be quick; one that throws does not stop the worker.
 */
public interface Hooks {
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

  /** A handler threw; the message will be given back. */
  default void onFailed(Delivery message, Throwable error) {}

  /** A lease was lost: the handler was interrupted, or never begun, or its acknowledgement came too late. */
  default void onLost(Delivery message) {}

  /** A request failed and will be repeated: a {@link ProblemException} or an {@link java.io.IOException}. */
  default void onError(Throwable error) {}
}

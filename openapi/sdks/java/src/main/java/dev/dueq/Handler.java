package dev.dueq;

/**
 * What is done with a message.
 *
 * <p>Returning acknowledges the message. Throwing gives it back: with the topic's backoff and the exception's message as the
 * reason, or as {@link RetryIn} and {@link Dead} say. A message may come more than once (a worker may die between handling and
 * acknowledging), so handling one twice must do no harm.
 */
@FunctionalInterface
public interface Handler {
  /**
   * Handles one message.
   *
   * @param message the message
   * @param lease the right to handle it; the thread is interrupted when that is lost
   * @throws Exception whatever went wrong
   */
  void handle(Delivery message, Lease lease) throws Exception;
}

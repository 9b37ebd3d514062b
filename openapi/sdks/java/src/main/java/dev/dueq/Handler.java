package dev.dueq;

import java.util.Objects;

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

  /**
   * A handler of payloads of one class: {@code Handler.of(Order.class, (order, message, lease) -> shop.close(order))}. It fails
   * where a payload does not fit the class.
   */
  static <T> Handler of(Class<T> type, Typed<T> handler) {
    Objects.requireNonNull(handler, "a worker needs a handler");
    return (message, lease) -> handler.handle(message.payloadAs(type), message, lease);
  }

  /**
   * What is done with a payload of a class.
   *
   * @param <T> the class
   */
  @FunctionalInterface
  interface Typed<T> {
    /**
     * Handles one message, as {@link Handler#handle} does.
     *
     * @param payload its payload
     * @param message the message
     * @param lease the right to handle it; the thread is interrupted when that is lost
     * @throws Exception whatever went wrong
     */
    void handle(T payload, Delivery message, Lease lease) throws Exception;
  }
}

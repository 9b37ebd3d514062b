package dev.dueq;

/**
 * What is done around every handler of a worker, such as timing and logging; see {@link Worker.Builder#middleware}.
 *
 * <pre>{@code
 * Middleware timed = (message, lease, next) -> {
 *   long begun = System.nanoTime();
 *   next.handle(message, lease);
 *   metrics.record(message.getTopic(), System.nanoTime() - begun);
 * };
 * }</pre>
 */
@FunctionalInterface
public interface Middleware {
  /**
   * Handles one message, mostly by calling {@code next.handle(message, lease)}. What it throws counts as thrown by the handler, be
   * it the handler's own exception or a {@link RetryIn} or {@link Dead}. Returning without a call acknowledges the message.
   *
   * @param message the message
   * @param lease the right to handle it; the thread is interrupted when that is lost
   * @param next the next middleware, or the handler
   * @throws Exception whatever went wrong
   */
  void handle(Delivery message, Lease lease, Handler next) throws Exception;
}

package dev.dueq;

import java.time.Duration;

/** Thrown by a handler: not now, again after a while. Counts as an attempt. */
public final class RetryIn extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final Duration delay;

  /**
   * Again after a while.
   *
   * @param delay up to ten years; rounded up to whole milliseconds
   */
  public RetryIn(Duration delay) {
    this(delay, null);
  }

  /**
   * Again after a while, for a reason.
   *
   * @param delay up to ten years; rounded up to whole milliseconds
   * @param reason kept with the message; up to 1024 characters of it
   */
  public RetryIn(Duration delay, String reason) {
    super(reason);
    if (delay.isNegative()) {
      throw new IllegalArgumentException("a negative delay: " + delay);
    }
    this.delay = delay;
  }

  /** How long the message waits. */
  public Duration delay() {
    return delay;
  }

  /** The same as dueq takes it. */
  long milliseconds() {
    return MessageOptions.milliseconds(delay.compareTo(MessageOptions.LONGEST) < 0 ? delay : MessageOptions.LONGEST);
  }
}

package dev.dueq;

import java.time.Duration;

/** The right to handle a message. The worker extends it by itself as long as the handler runs. */
public interface Lease {
  /**
   * Whether the message is no longer this handler's, because the lease was lost or the worker stopped waiting for it. The thread
   * has been interrupted then. Nothing is acknowledged; the message may be with another worker already.
   */
  boolean isLost();

  /** How long the lease lasts at least, by this process's clock, unless it is extended; zero when it is lost. */
  Duration remaining();
}

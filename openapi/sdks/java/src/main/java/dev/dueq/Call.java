package dev.dueq;

import java.time.Duration;
import java.util.List;
import java.util.Locale;

/** A request of the worker that is under way. */
final class Call {
  enum Kind {
    LEASE,
    ACK,
    NACK,
    EXTEND
  }

  final Kind kind;
  /** What it carries: of a lease request, its acks. */
  final List<Held> held;

  /** How many messages a lease request asks for. */
  final int asked;

  final long sentAt;
  final Duration timeout;
  final long expiresAt;
  private Thread thread;
  private boolean cancelled;

  /** The answer may take that long. */
  Call(Kind kind, List<Held> held, int asked, long now, Duration timeout) {
    this.kind = kind;
    this.held = held;
    this.asked = asked;
    this.sentAt = now;
    this.timeout = timeout;
    this.expiresAt = now + timeout.toNanos();
  }

  /** What it is, for people. */
  String operation() {
    return "the worker's " + kind.name().toLowerCase(Locale.ROOT);
  }

  /** This thread is about to wait for its answer. Returns false when it was cancelled. */
  synchronized boolean begin() {
    thread = cancelled ? null : Thread.currentThread();
    return !cancelled;
  }

  /** This thread waits no more; interrupts come only before. Returns whether it was cancelled. */
  synchronized boolean end() {
    thread = null;
    Thread.interrupted();
    return cancelled;
  }

  /** Closes its connection, so that dueq takes back what it would have granted. */
  synchronized void cancel() {
    cancelled = true;
    if (thread != null) {
      thread.interrupt();
    }
  }
}

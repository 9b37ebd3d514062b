package dev.dueq;

import java.util.List;

/** A request of the worker that is under way. */
final class Call {
  enum Kind {
    LEASE,
    ACK,
    NACK,
    EXTEND
  }

  /** How long an answer may take, beside the time that a long poll asks for. */
  private static final long PATIENCE_MS = 15_000;

  final Kind kind;
  /** What it carries: of a lease request, its acks. */
  final List<Held> held;

  /** How many messages a lease request asks for. */
  final int asked;

  final long sentAt;
  final long expiresAt;
  private Thread thread;
  private boolean cancelled;

  Call(Kind kind, List<Held> held, int asked, long now, long waitMs) {
    this.kind = kind;
    this.held = held;
    this.asked = asked;
    this.sentAt = now;
    this.expiresAt = now + (waitMs + PATIENCE_MS) * 1_000_000;
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

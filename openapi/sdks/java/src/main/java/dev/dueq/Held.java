package dev.dueq;

import java.time.Duration;

/** A message that the worker holds, from the answer that brought it until the server knows what became of it. */
final class Held implements Lease {
  enum State {
    /** Not begun. */
    WAITING,
    /** Its handler runs. */
    RUNNING,
    /** Handled, or to be given back; an ack or nack is under way. */
    SETTLING,
    /** No longer this worker's. */
    LOST
  }

  final Delivery message;
  /** As the server wrote them. */
  final String id;

  final String token;
  /** What an extension asks for. */
  final long leaseMs;

  // All below is guarded by the engine's lock, but for `lost` and `deadline`, which the handler may ask for.
  State state = State.WAITING;
  Thread thread;
  /** When the lease is over at the latest, by System.nanoTime. */
  volatile long deadline;

  /** When it is to be extended. */
  long extendAt;

  boolean extending;
  volatile boolean lost;
  /** How often an ack or nack of it was sent. */
  int sent;

  // What a nack says.
  boolean dead;
  boolean release;
  Long delayMs;
  String reason;

  Held(Delivery message, String id, String token, long now, long leftMs, long leaseMs) {
    this.message = message;
    this.id = id;
    this.token = token;
    this.leaseMs = leaseMs;
    leased(now, leftMs);
  }

  /** The lease lasts that long from then; a third of it on, it is to be extended. */
  void leased(long from, long ms) {
    long nanos = ms * 1_000_000;
    deadline = from + nanos;
    extendAt = from + nanos / 3;
    extending = false;
  }

  @Override
  public boolean isLost() {
    return lost;
  }

  @Override
  public Duration remaining() {
    return lost ? Duration.ZERO : Duration.ofNanos(Math.max(0, deadline - System.nanoTime()));
  }
}

package dev.dueq;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;

/**
 * Acks, or nacks, that the server has not confirmed yet. What a request carried that failed or was not answered comes back here
 * and is sent again with the same token, which is safe. Guarded by the engine's lock.
 */
final class Settling {
  /** How many one request may carry. */
  static final int MOST = 1000;

  /** How long one may wait for company, or for a lease request to ride on. */
  private static final long PATIENCE = 5_000_000;

  /** After the server said that Redis is away. */
  private static final long AGAIN = 100_000_000;

  /** {@code ACK} or {@code NACK}. */
  final Call.Kind kind;

  private final ArrayDeque<Held> pending = new ArrayDeque<>();
  private long due;
  /** Whether a request of their own is under way. */
  boolean flying;

  private long patience = PATIENCE;

  Settling(Call.Kind kind) {
    this.kind = kind;
  }

  boolean isEmpty() {
    return pending.isEmpty();
  }

  /** Nothing is waited for any more. */
  void hurry(long now) {
    patience = 0;
    due = now;
  }

  /** When the pending ones want a request of their own; only if there are any. */
  long due() {
    return due;
  }

  void add(Held held, long now) {
    if (pending.isEmpty()) {
      due = now + patience;
    }
    pending.add(held);
  }

  /** As many as a request may carry, or none. */
  List<Held> take() {
    if (pending.isEmpty()) {
      return List.of();
    }
    List<Held> taken = new ArrayList<>(Math.min(pending.size(), MOST));
    while (!pending.isEmpty() && taken.size() < MOST) {
      Held held = pending.poll();
      held.sent++;
      taken.add(held);
    }
    return taken;
  }

  /** A request failed; nobody knows whether it was done. */
  void back(List<Held> held, long now) {
    if (!held.isEmpty()) {
      due = now;
      pending.addAll(held);
    }
  }

  /**
   * A request was answered.
   *
   * @return those whose lease had been lost
   */
  List<Held> settled(List<Held> sent, List<Wire.Outcome> outcomes, long now) {
    List<Held> lost = new ArrayList<>(0);
    for (int i = 0; i < sent.size(); i++) {
      Held held = sent.get(i);
      switch (status(held, outcomes, i)) {
        case "ok" -> {}
        case "redis_unavailable", "outcome_unknown", "" -> {
          pending.add(held);
          due = now + AGAIN;
        }
        default -> {
          if (!held.release && !(held.sent > 1 && isWhatIsLeft(outcomes.get(i)))) {
            lost.add(held);
          }
        }
      }
    }
    return lost;
  }

  /** Whether it is what a repeat gets when the first was done, and its answer lost. */
  private boolean isWhatIsLeft(Wire.Outcome outcome) {
    return outcome.status().equals("message_not_found") || kind == Call.Kind.NACK && outcome.status().equals("lease_lost");
  }

  /** Answers come in the request's order; empty where there is none. */
  static String status(Held held, List<Wire.Outcome> outcomes, int at) {
    Wire.Outcome outcome = outcome(held, outcomes, at);
    return outcome == null ? "" : outcome.status();
  }

  static Wire.Outcome outcome(Held held, List<Wire.Outcome> outcomes, int at) {
    return at < outcomes.size() && outcomes.get(at).id().equals(held.id) ? outcomes.get(at) : null;
  }
}

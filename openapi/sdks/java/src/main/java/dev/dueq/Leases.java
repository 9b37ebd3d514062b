package dev.dueq;

import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Set;

/**
 * The leases of messages that wait or are being handled: extended when a third of their time has passed, given up when it is over.
 * Guarded by the engine's lock.
 */
final class Leases {
  private static final long MS = 1_000_000;
  /** How long after a failed extension the next is tried, at most. */
  private static final long AGAIN = 1000 * MS;

  /** And at least: near the end of the twelve hours that dueq grants, extensions get short. */
  private static final long SOON = 100 * MS;

  private final Engine engine;
  private final Set<Held> held = Collections.newSetFromMap(new IdentityHashMap<>());
  private long nextAt;

  Leases(Engine engine) {
    this.engine = engine;
  }

  void add(Held message) {
    if (held.isEmpty() || message.extendAt - nextAt < 0) {
      nextAt = message.extendAt;
    }
    held.add(message);
  }

  void remove(Held message) {
    held.remove(message);
  }

  List<Held> all() {
    return new ArrayList<>(held);
  }

  /** When to look next. */
  long next(long otherwise) {
    return held.isEmpty() ? otherwise : nextAt;
  }

  /** Extends what is due, and a little before that, so that one request does for many; gives up what is over. */
  void look(long now, Todo todo) {
    if (held.isEmpty() || now - nextAt < 0) {
      return;
    }
    List<Held> due = new ArrayList<>();
    List<Held> over = new ArrayList<>();
    for (Held message : held) {
      if (now - message.deadline >= 0) {
        over.add(message);
      } else if (!message.extending && message.extendAt - now <= message.leaseMs * MS / 12) {
        due.add(message);
      }
    }
    over.forEach(message -> lose(message, todo));
    for (int from = 0; from < due.size(); from += Settling.MOST) {
      List<Held> batch = due.subList(from, Math.min(due.size(), from + Settling.MOST));
      batch.forEach(message -> message.extending = true);
      engine.call(Call.Kind.EXTEND, batch, now, todo);
    }
    plan(now);
  }

  /** Looks through all for the earliest that wants something. */
  private void plan(long now) {
    boolean first = true;
    for (Held message : held) {
      long at = message.extending ? message.deadline : message.extendAt;
      if (first || at - nextAt < 0) {
        nextAt = at;
        first = false;
      }
    }
  }

  void extended(Call call, List<Wire.Outcome> results, long now, Todo todo) {
    for (int i = 0; i < call.held.size(); i++) {
      Held message = call.held.get(i);
      if (!held.contains(message)) {
        continue;
      }
      switch (Settling.status(message, results, i)) {
        case "ok" -> {
          // Counted from before the request left, so that it is never over later than the server thinks.
          message.leased(call.sentAt, results.get(i).leaseMs());
          if (message.extendAt - now < SOON) {
            message.extendAt = now + SOON;
          }
        }
        case "redis_unavailable", "outcome_unknown", "" -> again(message, now);
        default -> lose(message, todo);
      }
    }
    plan(now);
  }

  void notExtended(List<Held> messages, long now) {
    messages.forEach(message -> again(message, now));
    plan(now);
  }

  private static void again(Held message, long now) {
    message.extending = false;
    message.extendAt = now + Math.max(SOON, Math.min(AGAIN, message.leaseMs * MS / 12));
  }

  /** The message is no longer this worker's: its handler is told, or never begun. */
  void lose(Held message, Todo todo) {
    held.remove(message);
    engine.crew().lose(message);
    todo.lost.add(message);
  }
}

package dev.dueq;

import java.util.ArrayList;
import java.util.List;

/** What is to be done once the lock is free. */
final class Todo {
  final List<Call> calls = new ArrayList<>(2);
  final List<Call> cancelled = new ArrayList<>(0);
  final List<Held> lost = new ArrayList<>(0);
  int runners;
  int leased;
  Throwable error;
  /** Whether that is the first in a row. */
  boolean away;

  /** Whether the server answers after that. */
  boolean back;

  boolean isEmpty() {
    return calls.isEmpty() && cancelled.isEmpty() && lost.isEmpty() && runners == 0 && leased == 0 && error == null && !back;
  }

  void told(Hooks hooks, String url) {
    if (back) {
      Crew.tell(() -> hooks.onBack(url));
    }
    if (leased > 0) {
      Crew.tell(() -> hooks.onLease(leased));
    }
    if (away) {
      Crew.tell(() -> hooks.onAway(url, error));
    }
    if (error != null) {
      Crew.tell(() -> hooks.onError(error));
    }
    for (Held held : lost) {
      Crew.tell(() -> hooks.onLost(held.message));
    }
  }
}

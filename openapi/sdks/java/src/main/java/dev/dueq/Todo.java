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

  boolean isEmpty() {
    return calls.isEmpty() && cancelled.isEmpty() && lost.isEmpty() && runners == 0 && leased == 0 && error == null;
  }

  void told(Hooks hooks) {
    if (leased > 0) {
      Crew.tell(() -> hooks.onLease(leased));
    }
    if (error != null) {
      Crew.tell(() -> hooks.onError(error));
    }
    for (Held held : lost) {
      Crew.tell(() -> hooks.onLost(held.message));
    }
  }
}

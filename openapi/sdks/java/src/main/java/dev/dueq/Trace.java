package dev.dueq;

import java.util.LinkedHashMap;
import java.util.Map;

/** Keeps a trace together: what a handler publishes carries the W3C traceparent of the message that it handles. */
final class Trace {
  private static final String HEADER = "traceparent";
  private static final ThreadLocal<String> CURRENT = new ThreadLocal<>();

  private Trace() {}

  /** This thread handles that message. */
  static void begin(Delivery message) {
    if (message.getHeaders() != null) {
      message.getHeaders().forEach(
          (name, value) -> {
            if (name.equalsIgnoreCase(HEADER)) {
              CURRENT.set(value);
            }
          });
    }
    if (message.getTraceparent() != null) {
      CURRENT.set(message.getTraceparent());
    }
  }

  /** It has been handled. */
  static void end() {
    CURRENT.remove();
  }

  /** These headers, and the trace of the message that this thread handles, unless they have one. */
  static Map<String, String> with(Map<String, String> headers) {
    String trace = CURRENT.get();
    if (trace == null || headers != null && headers.keySet().stream().anyMatch(HEADER::equalsIgnoreCase)) {
      return headers;
    }
    Map<String, String> traced = new LinkedHashMap<>(headers == null ? Map.of() : headers);
    traced.put(HEADER, trace);
    return traced;
  }
}

package dev.dueq;

/** A request is no callback of dueq's, or an old one sent again; the message says why. Answer it with 401. */
public final class WebhookException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  WebhookException(String message) {
    super(message);
  }
}

package dev.dueq;

/** Thrown by a handler: this message will never succeed. It is dead at once, whatever attempts are left. */
public final class Dead extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /**
   * Dead, for a reason.
   *
   * @param reason kept with the message; up to 1024 characters of it
   */
  public Dead(String reason) {
    super(reason);
  }
}

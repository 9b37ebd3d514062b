package dev.dueq;

import dev.dueq.invoker.ApiException;
import java.io.UncheckedIOException;
import java.lang.System.Logger.Level;

/** What a worker logs where its user sets no hooks. */
final class Log {
  private static final System.Logger LOGGER = System.getLogger(Hooks.LOGGER);

  private Log() {}

  static void failed(Delivery message, Throwable error) {
    String which = which(message);
    if (error instanceof RetryIn retry && message.getAttemptsLeft() > 0) {
      LOGGER.log(Level.INFO, which + ": again in " + retry.milliseconds() + " ms" + because(retry));
    } else if (error instanceof Dead || error instanceof RetryIn) {
      LOGGER.log(Level.WARNING, which + ": dead" + because(error));
    } else if (isMistake(error)) {
      LOGGER.log(Level.ERROR, which + ": the handler failed", error);
    } else {
      LOGGER.log(Level.WARNING, which + ": the handler failed: " + error);
    }
  }

  static void lost(Delivery message) {
    LOGGER.log(Level.WARNING, which(message) + ": the lease was lost");
  }

  static void away(String url, Throwable error) {
    // Not that it cannot be reached once more.
    String reason = error.getMessage().replace("cannot reach " + url + ": ", "");
    LOGGER.log(Level.WARNING, "cannot reach " + url + ", retrying: " + reason);
  }

  static void back(String url) {
    LOGGER.log(Level.INFO, url + " answers again");
  }

  private static String which(Delivery message) {
    return message.getTopic() + " " + message.getId() + ", attempt " + message.getAttempt();
  }

  private static String because(Throwable error) {
    return error.getMessage() == null ? "" : ": " + error.getMessage();
  }

  /** Unchecked exceptions are mistakes, but for those that stand for something outside of the program. */
  private static boolean isMistake(Throwable error) {
    return error instanceof Error
        || error instanceof RuntimeException && !(error instanceof ApiException) && !(error instanceof UncheckedIOException);
  }
}

import dev.dueq.Client;
import dev.dueq.Delivery;
import dev.dueq.Hooks;
import dev.dueq.Worker;
import java.util.Map;

/** Workers that are killed, stopped, and lose their leases. */
final class Work {
  private Work() {}

  private static final Hooks LOG =
      new Hooks() {
        @Override
        public void onLost(Delivery message) {
          System.err.println("lost " + message.getId());
        }

        @Override
        public void onError(Throwable error) {
          System.err.println("error " + error);
        }
      };

  private static long n(Delivery message) {
    return ((Number) ((Map<?, ?>) message.getPayload()).get("n")).longValue();
  }

  /** Prints {@code ready}, {@code failed <id>} and {@code handled <id>}; {@code stopped} on SIGTERM. */
  static void work(Client client, String topic, int concurrency, int prefetch) {
    Worker worker =
        Worker.builder(
                client,
                topic,
                (message, lease) -> {
                  long n = n(message);
                  if (n % 20 == 0 && message.getAttempt() == 1) {
                    Main.print("failed " + message.getId());
                    throw new IllegalStateException("not the first time");
                  }
                  Thread.sleep(n % 7);
                  Main.print("handled " + message.getId());
                })
            .concurrency(concurrency)
            .prefetch(prefetch)
            .hooks(LOG)
            .build();
    stopOnSignal(worker);
    Main.print("ready");
    worker.run();
    waitForEnd();
  }

  /** Prints {@code cancelled <id>} when a handler is told that its lease is lost, {@code long <id>} when it was not in 3.5 s. */
  static void lose(Client client, String topic) {
    Worker worker =
        Worker.builder(
                client,
                topic,
                (message, lease) -> {
                  boolean patient = message.getPayload() instanceof Map<?, ?> map && Boolean.TRUE.equals(map.get("long"));
                  try {
                    Thread.sleep(patient ? 3_500 : 20_000);
                  } catch (InterruptedException told) {
                    if (lease.isLost()) {
                      Main.print("cancelled " + message.getId());
                    }
                    throw told;
                  }
                  if (patient) {
                    Main.print("long " + message.getId());
                  }
                })
            .leaseMs(1000)
            .hooks(LOG)
            .build();
    stopOnSignal(worker);
    Main.print("ready");
    worker.run();
    waitForEnd();
  }

  /** A JVM that a signal ends has another status than 0, unless it is halted. */
  private static void stopOnSignal(Worker worker) {
    Runtime.getRuntime()
        .addShutdownHook(
            new Thread(
                () -> {
                  worker.close();
                  Main.print("stopped");
                  Runtime.getRuntime().halt(0);
                }));
  }

  /** The hook goes on where run() ends. */
  private static void waitForEnd() {
    try {
      Thread.sleep(10_000);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    }
  }
}

import dev.dueq.Client;
import dev.dueq.invoker.ApiException;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** Publishes {"n": 0}, {"n": 1} and so on, sixteen at a time, and prints how many were answered with a message. */
final class Publishing {
  private Publishing() {}

  static void run(String server, int messages, String topic) throws InterruptedException {
    AtomicInteger published = new AtomicInteger();
    try (Client client = Client.builder().url(server).retryFor(Duration.ofSeconds(120)).build()) {
      ExecutorService threads = Executors.newFixedThreadPool(16);
      for (int n = 0; n < messages; n++) {
        Map<String, Integer> payload = Map.of("n", n);
        threads.execute(
            () -> {
              try {
                if (client.publish(topic, payload).getId() != null) {
                  published.incrementAndGet();
                }
              } catch (ApiException error) {
                System.err.println(error);
              }
            });
      }
      threads.shutdown();
      threads.awaitTermination(1, TimeUnit.HOURS);
    }
    Main.print("published " + published);
  }
}

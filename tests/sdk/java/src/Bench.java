import dev.dueq.Client;
import dev.dueq.Worker;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Arrays;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/** How fast the worker is. */
final class Bench {
  private Bench() {}

  /** Messages a second with an empty handler, until the last ack was answered. */
  static void work(Client client, String topic, int concurrency, int prefetch, int messages) throws InterruptedException {
    AtomicInteger handled = new AtomicInteger();
    AtomicLong begun = new AtomicLong();
    CountDownLatch all = new CountDownLatch(1);
    Worker worker =
        Worker.builder(
                client,
                topic,
                (message, lease) -> {
                  if (begun.get() == 0) {
                    begun.compareAndSet(0, System.nanoTime());
                  }
                  if (handled.incrementAndGet() == messages) {
                    all.countDown();
                  }
                })
            .concurrency(concurrency)
            .prefetch(prefetch)
            .build();
    Thread thread = new Thread(worker::run);
    thread.start();
    all.await();
    long ended = System.nanoTime();
    worker.close();
    Main.print(String.format(Locale.ROOT, "{\"per_s\": %.1f}", messages * 1e9 / (ended - begun.get())));
  }

  /** How long after it was due a message's handler began, one message at a time. */
  static void late(Client client, String topic, int messages) throws InterruptedException {
    double[] late = new double[messages];
    AtomicInteger count = new AtomicInteger();
    CountDownLatch all = new CountDownLatch(1);
    Worker worker =
        Worker.builder(
                client,
                topic,
                (message, lease) -> {
                  Instant now = Instant.now();
                  int at = count.getAndIncrement();
                  if (at < messages) {
                    late[at] = ChronoUnit.MICROS.between(message.getDueAt().toInstant(), now) / 1000.0;
                  }
                  if (at + 1 == messages) {
                    all.countDown();
                  }
                })
            .concurrency(1)
            .build();
    Thread thread = new Thread(worker::run);
    thread.start();
    all.await();
    worker.close();
    Arrays.sort(late);
    Main.print(
        String.format(
            Locale.ROOT,
            "{\"p50_ms\": %.2f, \"p99_ms\": %.2f, \"max_ms\": %.2f}",
            late[messages / 2],
            late[Math.min(messages - 1, messages * 99 / 100)],
            late[messages - 1]));
  }
}

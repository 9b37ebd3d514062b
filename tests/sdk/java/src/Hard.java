import dev.dueq.Client;
import dev.dueq.Dead;
import dev.dueq.Delivery;
import dev.dueq.Hooks;
import dev.dueq.ProblemException;
import dev.dueq.RetryIn;
import dev.dueq.Worker;
import dev.dueq.model.BackoffKind;
import dev.dueq.model.BackoffRequest;
import dev.dueq.model.Message;
import dev.dueq.model.PublishRequest;
import dev.dueq.model.PushRequest;
import dev.dueq.model.PutTopicRequest;
import dev.dueq.model.State;
import dev.dueq.model.TopicCounts;
import java.io.IOException;
import java.net.URI;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;

/** What the other subcommands do not reach; fails on the first that is wrong, prints {@code ok} otherwise. */
final class Hard {
  private Hard() {}

  static void run(Client client, String topic) throws Exception {
    errors(client, topic + "-errors");
    logged(client, topic + "-logged");
    stopTimeout(client, topic + "-timeout");
    waitingReleased(client, topic + "-waiting");
    refused(client, topic + "-pushed");
    Worker.builder(client, topic, (message, lease) -> {}).build().close();
    Facade.run(client, topic);
    Faults.run();
    InMemory.run();
    Main.print("ok");
  }

  /** RetryIn, then a plain exception, then Dead; hooks that throw. */
  private static void errors(Client client, String topic) throws InterruptedException {
    UUID id = client.publish(topic, new PublishRequest().payload(1)).getId();
    CountDownLatch failed = new CountDownLatch(3);
    Hooks hooks =
        new Hooks() {
          @Override
          public void onStart(Delivery message) {
            throw new IllegalStateException("a hook");
          }

          @Override
          public void onFailed(Delivery message, Throwable error) {
            failed.countDown();
            throw new IllegalStateException("a hook");
          }
        };
    Worker worker =
        Worker.builder(
                client,
                topic,
                (message, lease) -> {
                  switch (message.getAttempt().intValue()) {
                    case 1 -> throw new RetryIn(Duration.ofMillis(100), "later");
                    case 2 -> throw new Exception("half a pair: \uD83D " + "x".repeat(2000));
                    default -> throw new Dead("no such order");
                  }
                })
            .hooks(hooks)
            .build();
    begin(worker);
    failed.await();
    worker.close();
    Message message = client.messages().getMessage(id);
    check(message.getState() == State.DEAD && "no such order".equals(message.getLastError()), message);
    check(message.getEvents().stream().anyMatch(event -> "later".equals(event.getReason())), message);
    check(
        message.getEvents().stream().anyMatch(event -> event.getReason() != null && event.getReason().length() == 1024), message);
  }

  /** A worker without hooks leaves a trace of what failed. */
  private static void logged(Client client, String topic) throws InterruptedException {
    client.topics().putTopic(topic, new PutTopicRequest().backoff(new BackoffRequest().kind(BackoffKind.FIXED).baseMs(1L)), null);
    UUID id = client.publish(topic, 1).getId();
    BlockingQueue<String> said = new LinkedBlockingQueue<>();
    Handler handler =
        new Handler() {
          @Override
          public void publish(LogRecord entry) {
            said.add(entry.getLevel() + " " + entry.getMessage() + (entry.getThrown() == null ? "" : " with the stack"));
          }

          @Override
          public void flush() {}

          @Override
          public void close() {}
        };
    Logger logger = Logger.getLogger(Hooks.LOGGER);
    logger.addHandler(handler);
    logger.setUseParentHandlers(false);
    Worker worker =
        Worker.builder(
                client,
                topic,
                (message, lease) -> {
                  switch (message.getAttempt().intValue()) {
                    case 1 -> throw new NullPointerException("a mistake");
                    case 2 -> throw new IOException("no way");
                    case 3 -> throw new RetryIn(Duration.ofMillis(1), "closed");
                    default -> throw new Dead("no such order");
                  }
                })
            .build();
    begin(worker);
    for (String wanted :
        List.of(
            "SEVERE %s %s, attempt 1: the handler failed with the stack",
            "WARNING %s %s, attempt 2: the handler failed: java.io.IOException: no way",
            "INFO %s %s, attempt 3: again in 1 ms: closed",
            "WARNING %s %s, attempt 4: dead: no such order")) {
      String got = said.poll(20, TimeUnit.SECONDS);
      check(wanted.formatted(topic, id).equals(got), got);
    }
    worker.close();
    logger.removeHandler(handler);
    logger.setUseParentHandlers(true);
  }

  /** A handler that does not end is interrupted, and its message given back. */
  private static void stopTimeout(Client client, String topic) throws InterruptedException {
    client.publish(topic, new PublishRequest().payload(1));
    CountDownLatch begun = new CountDownLatch(1);
    CountDownLatch told = new CountDownLatch(1);
    Worker worker =
        Worker.builder(
                client,
                topic,
                (message, lease) -> {
                  begun.countDown();
                  try {
                    Thread.sleep(30_000);
                  } catch (InterruptedException interrupted) {
                    check(lease.isLost(), "not lost");
                    told.countDown();
                  }
                })
            .stopTimeout(Duration.ofMillis(300))
            .build();
    begin(worker);
    begun.await();
    worker.close();
    told.await();
    TopicCounts counts = client.topics().getTopic(topic).getCounts();
    check(counts.getReady() == 1 && counts.getLeased() == 0, counts);
  }

  /** What was prefetched and not begun is given back, and costs no attempt. */
  private static void waitingReleased(Client client, String topic) throws InterruptedException {
    for (int i = 0; i < 8; i++) {
      client.publish(topic, new PublishRequest().payload(i));
    }
    CountDownLatch begun = new CountDownLatch(1);
    AtomicInteger handled = new AtomicInteger();
    Worker worker =
        Worker.builder(
                client,
                topic,
                (message, lease) -> {
                  begun.countDown();
                  Thread.sleep(700);
                  handled.incrementAndGet();
                })
            .concurrency(1)
            .prefetch(5)
            .build();
    begin(worker);
    begun.await();
    worker.close();
    TopicCounts counts = client.topics().getTopic(topic).getCounts();
    check(handled.get() == 1 && counts.getReady() == 7 && counts.getLeased() == 0, counts);
  }

  /** A refusal that repeating does not mend ends the worker. */
  private static void refused(Client client, String topic) {
    client.topics().putTopic(topic, new PutTopicRequest().push(new PushRequest().url(URI.create("https://example.com/"))), null);
    try {
      Worker.builder(client, topic, (message, lease) -> {}).build().run();
      throw new AssertionError("it ran");
    } catch (ProblemException problem) {
      check(problem.status() == 409 && problem.code().equals("topic_is_pushed"), problem);
    }
  }

  private static void begin(Worker worker) {
    Thread thread = new Thread(worker::run);
    thread.setDaemon(true);
    thread.start();
  }

  static void check(boolean good, Object otherwise) {
    if (!good) {
      throw new AssertionError(String.valueOf(otherwise));
    }
  }
}

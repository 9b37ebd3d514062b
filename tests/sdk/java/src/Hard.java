import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.dueq.Client;
import dev.dueq.Dead;
import dev.dueq.Delivery;
import dev.dueq.Hooks;
import dev.dueq.ProblemException;
import dev.dueq.RetryIn;
import dev.dueq.Worker;
import dev.dueq.api.MessagesApi.APIGetMessageRequest;
import dev.dueq.model.BackoffKind;
import dev.dueq.model.BackoffRequest;
import dev.dueq.model.Message;
import dev.dueq.model.PublishRequest;
import dev.dueq.model.PushRequest;
import dev.dueq.model.PutTopicRequest;
import dev.dueq.model.State;
import dev.dueq.model.TopicCounts;
import dev.dueq.testing.TestServer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

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
    leasing();
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
    Message message = client.messages().getMessage(APIGetMessageRequest.newBuilder().id(id).build());
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
                  RetryIn closed = new RetryIn(Duration.ofMillis(1), "closed");
                  if (message.getAttemptsLeft() == 0) {
                    throw closed;
                  }
                  switch (message.getAttempt().intValue()) {
                    case 1 -> throw new NullPointerException("a mistake");
                    case 2 -> throw new IOException("no way");
                    case 3 -> throw closed;
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
    UUID last = client.publish(topic, new PublishRequest().payload("last").maxAttempts(1L)).getId();
    String got = said.poll(20, TimeUnit.SECONDS);
    check("WARNING %s %s, attempt 1: dead: closed".formatted(topic, last).equals(got), got);
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

  /** Lease requests ask for the handlers that are free, and for what is prefetched, never for more; and no handler stays idle. */
  static void leasing() throws Exception {
    for (int[] numbers : new int[][] {{1, 1}, {2, 1}, {5, 1}, {16, 1}, {64, 1}, {1, 3}, {10, 4}, {3, 50}}) {
      plenty(numbers[0], numbers[1]);
      bursts(numbers[0], numbers[1]);
    }
  }

  /** Handlers that end when they are let. */
  private static final class Gate {
    final Semaphore open = new Semaphore(0);
    final AtomicInteger begun = new AtomicInteger();
    final AtomicInteger ended = new AtomicInteger();

    void handle() throws InterruptedException {
      begun.incrementAndGet();
      open.acquire();
      ended.incrementAndGet();
    }

    /** So many handlers run at a time, soon. */
    void busy(int handlers) throws InterruptedException {
      until(() -> begun.get() - ended.get() == handlers && open.availablePermits() == 0, this);
    }

    @Override
    public String toString() {
      return begun + " begun, " + ended + " ended";
    }
  }

  /** Before a server that always has as many messages as are asked for. */
  private static void plenty(int concurrency, int prefetch) throws Exception {
    int most = concurrency + (prefetch == 1 ? 0 : prefetch);
    ObjectMapper json = new ObjectMapper();
    Gate gate = new Gate();
    AtomicInteger granted = new AtomicInteger();
    BlockingQueue<String> tooMuch = new LinkedBlockingQueue<>();
    Fake.Script script =
        (number, request) -> {
          JsonNode body = read(json, request.body());
          String results = results(body.path(request.line().contains("/lease") ? "acks" : "messages"));
          if (!request.line().contains("/lease")) {
            return Fake.answer(200, "{\"results\": [" + results + "]}");
          }
          int count = body.get("max_messages").asInt();
          int held = granted.get() - gate.ended.get();
          if (held + count > most) {
            tooMuch.add(count + " more than " + held);
          }
          String message = "{\"id\": \"00000000-0000-0000-0000-%012d\", \"lease_token\": \"t\", \"lease_ms\": 30000}";
          String messages = IntStream.range(0, count).mapToObj(i -> message.formatted(granted.get() + i)).collect(Collectors.joining(","));
          granted.addAndGet(count);
          return Fake.answer(200, "{\"messages\": [" + messages + "], \"acks\": [" + results + "]}");
        };
    try (Fake fake = new Fake(script)) {
      Worker worker = gated(new Client(fake.url()), gate, concurrency, prefetch);
      for (int ends : List.of(0, 1, concurrency, 1, (concurrency + 1) / 2, 7, 3 * concurrency)) {
        gate.open.release(ends);
        gate.busy(concurrency);
        // Half of what is prefetched is there at the least.
        until(() -> granted.get() - gate.ended.get() > most - (prefetch + 1) / 2, granted + " granted, " + gate);
      }
      gate.open.release(1_000_000);
      worker.close();
    }
    check(tooMuch.isEmpty(), tooMuch);
  }

  /** Messages that come when a request for fewer waits for them. */
  private static void bursts(int concurrency, int prefetch) throws Exception {
    try (TestServer server = new TestServer();
        Client client = server.client()) {
      Gate gate = new Gate();
      Worker worker = gated(client, gate, concurrency, prefetch);
      for (int messages : List.of(Math.max(1, concurrency - 1), concurrency, 1, concurrency)) {
        client.publishBatch("t", Collections.nCopies(messages, 1));
        gate.busy(messages);
        gate.open.release(messages);
        until(() -> server.messages("t").isEmpty(), gate);
      }
      worker.close();
    }
  }

  private static Worker gated(Client client, Gate gate, int concurrency, int prefetch) {
    Worker worker =
        Worker.builder(client, "t", (message, lease) -> gate.handle()).concurrency(concurrency).prefetch(prefetch).build();
    begin(worker);
    return worker;
  }

  private static JsonNode read(ObjectMapper json, String text) {
    try {
      return json.readTree(text);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  private static String results(JsonNode items) {
    return IntStream.range(0, items.size())
        .mapToObj(i -> "{\"id\": " + items.get(i).get("id") + ", \"status\": \"ok\"}")
        .collect(Collectors.joining(","));
  }

  private static void until(BooleanSupplier holds, Object otherwise) throws InterruptedException {
    for (int i = 0; !holds.getAsBoolean(); i++) {
      check(i < 2000, otherwise);
      Thread.sleep(5);
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

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.dueq.Client;
import dev.dueq.Dead;
import dev.dueq.Delivery;
import dev.dueq.Handler;
import dev.dueq.Hooks;
import dev.dueq.Middleware;
import dev.dueq.ProblemException;
import dev.dueq.Publish;
import dev.dueq.RetryIn;
import dev.dueq.Worker;
import dev.dueq.model.AckRequest;
import dev.dueq.model.LeaseRequest;
import dev.dueq.model.ListedState;
import dev.dueq.model.Message;
import dev.dueq.model.NackRequest;
import dev.dueq.model.OnDuplicate;
import dev.dueq.model.PublishRequest;
import dev.dueq.model.PublishResult;
import dev.dueq.model.PutScheduleRequest;
import dev.dueq.model.PutTopicRequest;
import dev.dueq.model.State;
import dev.dueq.model.TopicItem;
import dev.dueq.model.UpdateTopicRequest;
import dev.dueq.testing.TestServer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** The dueq in memory that users' tests run against, workers until nothing is due, and middleware. */
final class InMemory {
  private InMemory() {}

  /** The steps that it cannot take: topics have no configuration, URLs are not checked, there are no schedules. */
  private static final Set<String> WITHOUT =
      Set.of(
          "configure", "reset", "pause", "list", "drop", "callback_refused", "schedule", "trigger", "payload",
          "put_schedule", "run_schedule", "delete_schedule", "put_topic", "put_group", "delete_topic");

  static void run() throws Exception {
    steps();
    clock();
    policies();
    failures();
    keys();
    leases();
    lists();
    stopped();
    untilEmpty();
    middleware();
  }

  /** Repeats become one message, as their policy says. */
  private static void policies() throws Exception {
    Duration hour = Duration.ofHours(1);
    try (TestServer server = new TestServer();
        Client client = server.client()) {
      for (int n = 0; n < 3; n++) {
        client.publish("t", n, with -> with.debounce("d", hour, hour.multipliedBy(2)));
        client.publish("t", 10 + n, with -> with.throttle("k", hour));
        client.publish("t", 20 + n, with -> with.once("o", hour));
      }
      List<String> payloads = server.messages("t").stream().map(message -> String.valueOf(message.getPayload())).toList();
      check(payloads.equals(List.of("2", "10", "20", "12")), payloads);
      server.advance(hour);
      var last = client.publish("t", 3, with -> with.debounce("d", hour.multipliedBy(5), hour.multipliedBy(2)));
      check(last.getDueAt().equals(last.getPublishedAt().plusHours(2)), last);
      check(!client.publish("t", 4, with -> with.once("o", hour)).getDuplicate(), "once more");
      check(!client.publish("t", 5, with -> with.throttle("k", hour)).getDuplicate(), "the next interval");
      refused("invalid_input", () -> client.publish("t", 1, with -> with.key("a").once("o", hour)));
    }
  }

  /** What a real dueq is held to. */
  private static void steps() throws Exception {
    try (TestServer server = new TestServer();
        Client client = server.client()) {
      List<String> lines = new ArrayList<>();
      new Steps(client, "T", lines::add).run(WITHOUT);
      ObjectMapper json = new ObjectMapper();
      List<JsonNode> wanted = new ArrayList<>();
      for (String line : Files.readAllLines(Path.of("tests/sdk/steps.jsonl"))) {
        wanted.add(json.readTree(line));
      }
      wanted.removeIf(step -> WITHOUT.contains(step.get("step").asText()));
      for (int i = 0; i < wanted.size(); i++) {
        check(wanted.get(i).equals(json.readTree(lines.get(i))), lines.get(i) + " instead of " + wanted.get(i));
      }
      check(lines.size() == wanted.size() && lines.size() == 22, lines);
      List<Runnable> notSupported =
          List.of(
              () -> client.topics().putTopic("t", new PutTopicRequest(), null),
              () -> client.api().topics().getTopic("t"),
              () -> client.topics().updateTopic("t", new UpdateTopicRequest(), null),
              () -> client.topics().deleteTopic("t", null),
              () -> client.topics().pauseTopic("t"),
              () -> client.topics().resumeTopic("t"),
              () -> client.schedules().putSchedule("s", new PutScheduleRequest().topic("t").everyMs(1000L)),
              () -> client.messages().publishRaw("t", new byte[0], null, null, null, null, null, null, null, null, null, null));
      notSupported.forEach(request -> refused("not_supported", request));
      try {
        client.putSchedule("s", new Publish(1).delay(Duration.ofSeconds(1)), with -> with.topic("t").every(Duration.ofMinutes(1)));
        throw new AssertionError("when it is due is for the schedule to say");
      } catch (IllegalArgumentException expected) {
        check(expected.getMessage().contains("delay"), expected);
      }
    }
  }

  private static void clock() throws Exception {
    try (TestServer server = new TestServer();
        Client client = server.client()) {
      client.publish("t", 1, with -> with.delay(Duration.ofMinutes(30)).key("1"));
      client.publish("t", 2, with -> with.delay(Duration.ofHours(1)).key("2"));
      BlockingQueue<Object> handled = new LinkedBlockingQueue<>();
      Worker worker = begin(Worker.builder(client, "t", (message, lease) -> handled.add(message.getPayload())));
      server.advance(Duration.ofMinutes(29));
      List<Message> waiting = server.messages("t");
      check(waiting.size() == 2 && waiting.get(0).getState() == State.DELAYED, waiting);
      server.advance(Duration.ofMinutes(1));
      check(Integer.valueOf(1).equals(handled.poll(10, TimeUnit.SECONDS)), "the first is due");
      check(client.key("t", "2").reschedule(Duration.ZERO), "moved");
      check(Integer.valueOf(2).equals(handled.poll(10, TimeUnit.SECONDS)), "the second is due");
      until(() -> server.messages("t").isEmpty());
      check(!client.key("t", "2").cancel(), "it is gone");
      worker.close();
    }
  }

  /** Handlers fail as they do with dueq. */
  private static void failures() throws Exception {
    try (TestServer server = new TestServer();
        Client client = server.client()) {
      BlockingQueue<String> tries = new LinkedBlockingQueue<>();
      Handler handler =
          (message, lease) -> {
            tries.add(message.getPayload() + " " + message.getAttempt());
            switch (message.getPayload() + " " + message.getAttempt()) {
              case "later 1" -> throw new RetryIn(Duration.ofHours(1), "busy");
              case "dead 1" -> throw new Dead("no such order");
              case "poor 1" -> throw new Exception("failed");
              default -> {}
            }
          };
      var messages =
          List.of(
              new Publish("later"),
              new Publish("dead"),
              new Publish("poor").maxAttempts(1),
              new Publish("first").priority(9));
      client.publishBatch("t", messages);
      Worker worker = begin(Worker.builder(client, "t", handler).concurrency(1).hooks(new Quiet()));
      String failed = "later DELAYED busy, dead DEAD no such order, poor DEAD failed";
      until(() -> states(server).equals(failed));
      server.advance(Duration.ofHours(1));
      until(() -> server.messages("t").size() == 2);
      check(String.join(", ", tries).equals("first 1, later 1, dead 1, poor 1, later 2"), tries);
      check(client.dead("t").stream().map(Message::getPayload).toList().equals(List.of("dead", "poor")), "dead");
      check(client.redrive("t", 1) == 1, "redriven");
      until(() -> tries.contains("dead 2"));
      until(() -> server.messages("t").size() == 1);
      worker.close();
    }
  }

  private static String states(TestServer server) {
    return server.messages("t").stream()
        .map(message -> message.getPayload() + " " + message.getState().name() + " " + message.getLastError())
        .collect(Collectors.joining(", "));
  }

  private static void keys() {
    try (TestServer server = new TestServer();
        Client client = server.client()) {
      var first = client.publish("t", 1, with -> with.key("ü/+ 1").idempotencyKey("i"));
      check(client.publish("t", 1, with -> with.key("ü/+ 1").idempotencyKey("i")).getDuplicate(), "the same again");
      refused("idempotency_key_reused", () -> client.publish("t", 2, with -> with.idempotencyKey("i")));
      check(client.publish("t", 2, with -> with.key("ü/+ 1")).getId().equals(first.getId()), "the key is taken");
      refused("duplicate_key", () -> client.publish("t", 2, with -> with.key("ü/+ 1").onDuplicate(OnDuplicate.REJECT)));
      refused("invalid_input", () -> client.publish("t", 2, with -> with.onDuplicate(OnDuplicate.REJECT)));
      refused("invalid_input", () -> client.publish("t", 2, with -> with.priority(256)));
      refused("invalid_input", () -> client.publishBatch("t", List.of()));
      refused("invalid_input", () -> client.leases().leaseMessages("t", new LeaseRequest().leaseMs(999L)));
      refused("invalid_input", () -> client.redrive("t", 0));
      refused("invalid_topic_name", () -> client.publish("t u", 2));
      refused("topic_reserved", () -> client.publish("_t", 2));
      client.publish("t", 3, with -> with.key("ü/+ 1").onDuplicate(OnDuplicate.REPLACE));
      check(server.messages("t").get(0).getPayload().equals(3), "replaced");
      check(client.key("t", "ü/+ 1").get().orElseThrow().getId().equals(first.getId()), "found");
      server.advance(Duration.ofMinutes(11));
      check(!client.publish("t", 4, with -> with.idempotencyKey("i")).getDuplicate(), "the window is over");

      // A batch that is not valid stores nothing.
      refused("invalid_input", () -> client.publishBatch("b", List.of(new Publish(1), new Publish(2).onDuplicate(OnDuplicate.REJECT))));
      check(server.messages("b").isEmpty(), "nothing is stored");
      var twice = List.of(new Publish(1).key("k"), new Publish(2).key("k").onDuplicate(OnDuplicate.REJECT));
      var statuses = client.publishBatch("b", twice).stream().map(PublishResult::getStatus).toList();
      check(statuses.equals(List.of("ok", "duplicate_key")), statuses);
    }
  }

  private static void leases() {
    try (TestServer server = new TestServer();
        Client client = server.client()) {
      var id = client.publish("t", 1, with -> with.key("k")).getId();
      var leased = client.leases().leaseMessages("t", null).getMessages().get(0);
      refused("message_leased", () -> client.key("t", "k").cancel());
      server.advance(Duration.ofSeconds(31));
      refused("lease_lost", () -> client.leases().ackMessage(id, new AckRequest().leaseToken(leased.getLeaseToken())));
      check(server.messages("t").get(0).getState() == State.READY, "it came back");
      String token = client.leases().leaseMessages("t", null).getMessages().get(0).getLeaseToken();
      var nacked = client.leases().nackMessage(id, new NackRequest().leaseToken(token));
      check(nacked.getState() == State.DELAYED, nacked);
      check(!nacked.getDueAt().isBefore(leased.getLeaseExpiresAt().plusSeconds(2)), "the backoff");
      server.advance(Duration.ofSeconds(1));
      client.leases().leaseMessages("t", new LeaseRequest().leaseMs(60_000L));
      server.advance(Duration.ofSeconds(31));
      check(server.messages("t").get(0).getState() == State.LEASED, "its own lease");
      client.messages().deleteMessage(id, true);
      check(server.messages("t").isEmpty(), "deleted by force");
      client.callback("https://example.com/", 1);
      check(server.messages("_callbacks").get(0).getCallback().getUrl().equals("https://example.com/"), "a callback");
    }
  }

  private static void lists() {
    try (TestServer server = new TestServer();
        Client client = server.client()) {
      client.publishBatch("t", IntStream.range(0, 120).mapToObj(Publish::new).toList());
      client.publish("u", 1, with -> with.delay(Duration.ofHours(1)));
      check(client.listTopics().stream().map(TopicItem::getName).toList().equals(List.of("t", "u")), "topics");
      TopicItem topic = client.listTopics("u").iterator().next();
      check(topic.getCounts().getDelayed() == 1 && topic.getCounts().getReady() == 0, topic);
      var page = client.messages().listMessages("t", ListedState.READY, null, 50L, null, null);
      check(page.getItems().size() == 50 && !page.getItems().get(0).getPayload_JsonNullable().isPresent(), "a page");
      page = client.messages().listMessages("t", ListedState.READY, true, null, page.getNextCursor(), null);
      check(page.getItems().get(69).getPayload().equals(119) && page.getNextCursor() == null, "the rest");
      refused("topic_not_found", () -> client.redrive("v"));
    }
  }

  /** A worker that has stopped takes no message with it. */
  private static void stopped() throws InterruptedException {
    try (TestServer server = new TestServer();
        Client client = server.client()) {
      for (int i = 0; i < 20; i++) {
        client.publish("t", i);
        BlockingQueue<Object> handled = new LinkedBlockingQueue<>();
        Worker worker = begin(Worker.builder(client, "t", (message, lease) -> handled.add(message.getPayload())));
        check(Integer.valueOf(i).equals(handled.poll(10, TimeUnit.SECONDS)), "handled");
        worker.close();
        client.publish("t", "left");
        Message left = server.messages("t").get(0);
        check(handled.isEmpty() && left.getState() == State.READY, left);
        client.messages().deleteMessage(left.getId(), null);
      }
    }
  }

  /** All that is due is worked, what handlers publish and give back as well, and nothing is left unsaid. */
  private static void untilEmpty() throws Exception {
    for (int prefetch : List.of(1, 7)) {
      try (TestServer server = new TestServer();
          Client client = server.client()) {
        BlockingQueue<Integer> handled = new LinkedBlockingQueue<>();
        Handler handler =
            (message, lease) -> {
              int number = message.payloadAs(Integer.class);
              if (number % 10 == 0 && message.getAttempt() == 1) {
                throw new RetryIn(Duration.ZERO);
              }
              handled.add(number);
              if (number >= 103) {
                throw new Dead("enough");
              }
              if (number >= 97) {
                client.publish("t", number + 3);
              }
            };
        client.publish("t", "later", with -> with.delay(Duration.ofHours(1)));
        client.publishBatch("t", IntStream.range(0, 100).boxed().toList());
        Worker.builder(client, "t", handler).concurrency(3).prefetch(prefetch).hooks(new Quiet()).untilEmpty(true).build().run();
        check(handled.stream().sorted().toList().equals(IntStream.range(0, 106).boxed().toList()), handled);
        List<String> left = Arrays.stream(states(server).split(", ")).sorted().toList();
        check(left.equals(List.of("103 DEAD enough", "104 DEAD enough", "105 DEAD enough", "later DELAYED null")), left);
      }
    }
    try (TestServer server = new TestServer();
        Client client = server.client()) {
      // The last message comes back, by one handler or many.
      for (int concurrency : List.of(1, 10)) {
        client.publish("t", 1);
        BlockingQueue<Long> tries = new LinkedBlockingQueue<>();
        Handler handler =
            (message, lease) -> {
              tries.add(message.getAttempt());
              if (message.getAttempt() < 4) {
                throw new RetryIn(Duration.ZERO);
              }
            };
        Worker.builder(client, "t", handler).concurrency(concurrency).hooks(new Quiet()).untilEmpty(true).build().run();
        check(List.copyOf(tries).equals(List.of(1L, 2L, 3L, 4L)) && server.messages("t").isEmpty(), tries);
      }
      // A handler that waits for what it published.
      CountDownLatch second = new CountDownLatch(1);
      Handler patient =
          (message, lease) -> {
            if (Integer.valueOf(2).equals(message.getPayload())) {
              second.countDown();
            } else {
              Thread.sleep(300); // Nothing has been there for a while.
              client.publish("t", 2);
              check(second.await(10, TimeUnit.SECONDS), "the other handlers are idle");
            }
          };
      client.publish("t", 1);
      Worker.builder(client, "t", patient).untilEmpty(true).build().run();
      check(second.getCount() == 0 && server.messages("t").isEmpty(), server.messages("t"));
      // An empty topic, and one that there never was; nobody waits.
      long begun = System.nanoTime();
      Worker.builder(client, List.of("t", "never"), patient).untilEmpty(true).build().run();
      check(System.nanoTime() - begun < 5_000_000_000L, "at once");
    }
    // A server that is away is waited for; one that refuses ends it.
    Fake.Script script =
        (number, request) ->
            switch (number) {
              case 1 -> Fake.CUT;
              case 2 -> Fake.problem(503, "redis_unavailable");
              case 3 -> Fake.answer(200, "{\"messages\": []}");
              default -> Fake.problem(401, "unauthorized");
            };
    try (Fake fake = new Fake(script);
        Client client = new Client(fake.url())) {
      Supplier<Worker> worker = () -> Worker.builder(client, "t", (message, lease) -> {}).hooks(new Quiet()).untilEmpty(true).build();
      worker.get().run();
      check(fake.requests.size() == 3, fake.requests);
      refused("unauthorized", () -> worker.get().run());
    }
  }

  /** The first is outermost; each sees what is thrown further in, may throw itself, and may leave the handler out. */
  private static void middleware() throws Exception {
    try (TestServer server = new TestServer();
        Client client = server.client()) {
      BlockingQueue<String> told = new LinkedBlockingQueue<>();
      Middleware outer =
          (message, lease, next) -> {
            told.add("begin " + message.getPayload());
            try {
              next.handle(message, lease);
              told.add("done");
            } catch (Exception error) {
              told.add(error.getMessage());
              throw error;
            }
          };
      Middleware inner =
          (message, lease, next) -> {
            switch (String.valueOf(message.getPayload())) {
              case "skipped" -> told.add("left out");
              case "dead" -> throw new Dead("not wanted");
              default -> next.handle(message, lease);
            }
          };
      Handler handler =
          (message, lease) -> {
            told.add("handled");
            if ("bad".equals(message.getPayload())) {
              throw new RetryIn(Duration.ofHours(1), "bad");
            }
          };
      client.publishBatch("t", Arrays.asList("good", new Publish("skipped"), new PublishRequest().payload("dead"), "bad", null));
      var builder = Worker.builder(client, "t", handler).middleware(outer).middleware(inner).concurrency(1).hooks(new Quiet());
      Worker worker = begin(builder);
      until(() -> states(server).equals("dead DEAD not wanted, bad DELAYED bad"));
      worker.close();
      String wanted = "begin good, handled, done, begin skipped, left out, done, begin dead, not wanted, begin bad, handled, bad, begin null, handled, done";
      check(String.join(", ", told).equals(wanted), told);
    }
  }

  /** Logs no failures. */
  private static final class Quiet implements Hooks {
    @Override
    public void onFailed(Delivery message, Throwable error) {}

    @Override
    public void onAway(String url, Throwable error) {}

    @Override
    public void onBack(String url) {}
  }

  private static Worker begin(Worker.Builder builder) {
    Worker worker = builder.build();
    Thread thread = new Thread(worker::run);
    thread.setDaemon(true);
    thread.start();
    return worker;
  }

  private static void until(BooleanSupplier holds) throws InterruptedException {
    for (int i = 0; !holds.getAsBoolean(); i++) {
      check(i < 2000, "ten seconds passed");
      Thread.sleep(5);
    }
  }

  private static void refused(String code, Runnable request) {
    try {
      request.run();
    } catch (ProblemException problem) {
      check(problem.code().equals(code), problem);
      return;
    }
    throw new AssertionError("not refused: " + code);
  }

  private static void check(boolean good, Object otherwise) {
    Hard.check(good, otherwise);
  }
}

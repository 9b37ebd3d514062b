import com.sun.net.httpserver.HttpServer;
import dev.dueq.Client;
import dev.dueq.ConnectionException;
import dev.dueq.Delivery;
import dev.dueq.Handler;
import dev.dueq.Hooks;
import dev.dueq.Inside;
import dev.dueq.ProblemException;
import dev.dueq.Publish;
import dev.dueq.RequestTimeoutException;
import dev.dueq.RetryIn;
import dev.dueq.WebhookException;
import dev.dueq.WebhookHandler;
import dev.dueq.Webhooks;
import dev.dueq.Worker;
import dev.dueq.model.AckRequest;
import dev.dueq.model.LeaseRequest;
import dev.dueq.model.LeaseResponse;
import dev.dueq.model.PublishRequest;
import dev.dueq.model.PublishResult;
import dev.dueq.model.UpdateMessageRequest;
import java.io.ByteArrayInputStream;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** The client before servers that hang, break and refuse. */
final class Faults {
  private Faults() {}

  private static final Duration SHORT = Duration.ofMillis(300);

  static void run() throws Exception {
    timeOuts();
    repeats();
    batches();
    groupsHaveKeysThatAreMadeUp();
    notRepeated();
    deadline();
    messages();
    bodies();
    closed();
    away();
    refusedAtOnce();
    longSilence();
    workers();
    webhooks();
    Inside.run();
  }

  private static Client client(Fake fake) {
    return new Client(fake.url());
  }

  /** A server that does not answer, or stops in the middle of an answer. */
  private static void timeOuts() throws Exception {
    for (String answer : List.of(Fake.HANG, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{" + Fake.HANG)) {
      try (Fake fake = new Fake((number, request) -> answer)) {
        Client client = Client.builder().url(fake.url()).timeout(SHORT).retryFor(Duration.ZERO).build();
        var error = thrown(RequestTimeoutException.class, () -> client.topics().getTopic("orders"));
        check(error.url().equals(fake.url()) && error.operation().equals("GET /topics/orders"), error);
        check(error.getMessage().equals("no answer from " + fake.url() + " in 300 ms (GET /topics/orders)"), error);
        long from = System.nanoTime();
        thrown(RequestTimeoutException.class, () -> client.leases().leaseMessages("t", new LeaseRequest().waitMs(700L)));
        check(System.nanoTime() - from >= 1_000_000_000L, "a request that waits has as much more time");
        thrown(RequestTimeoutException.class, () -> new Client(fake.url()).withTimeout(SHORT).leases().leaseMessages("t", null));
        check(fake.left.tryAcquire(3, 10, TimeUnit.SECONDS), "a connection without an answer is closed");
      }
    }
  }

  /** What is safe to repeat is repeated, with the same key. */
  private static void repeats() throws Exception {
    Fake.Script thrice =
        (number, request) ->
            switch (number) {
              case 1 -> Fake.CUT;
              case 2 -> Fake.problem(503, "outcome_unknown");
              case 3 -> Fake.problem(429, "topic_full", "Retry-After: 1");
              default -> Fake.published();
            };
    try (Fake fake = new Fake(thrice)) {
      long from = System.nanoTime();
      client(fake).publish("t", 1, with -> with.key("ü"));
      check(System.nanoTime() - from >= 1_000_000_000L, "Retry-After");
      check(fake.requests.size() == 4 && fake.requests.stream().map(Faults::key).distinct().count() == 1, fake.requests);
      client(fake).publish("t", 1);
      check(!key(fake.requests.get(0)).equals(key(fake.requests.get(4))), "each message has a key of its own");
    }
    try (Fake fake = new Fake(thrice)) {
      client(fake).publish("t", new PublishRequest().payload(1).idempotencyKey("schlüssel"));
      check(fake.requests.stream().allMatch(request -> request.body().contains("\"schlüssel\"")), fake.requests);
    }
    try (Fake fake = new Fake(thrice)) {
      client(fake).callback("https://example.com", null, with -> with.timeout(SHORT));
      check(fake.requests.size() == 4 && fake.requests.get(3).body().contains("\"timeout_ms\":300"), fake.requests);
    }
    // What the first attempt did, and could not say.
    UUID id = new UUID(0, 1);
    Fake.Script gone = (number, request) -> number == 1 ? Fake.CUT : Fake.problem(404, "message_not_found");
    try (Fake fake = new Fake(gone)) {
      check(client(fake).key("a b", "c/d").cancel(), "cancelled");
      check(fake.requests.get(1).line().equals("DELETE /topics/a%20b/keys/c%2Fd HTTP/1.1"), fake.requests);
      check(!client(fake).key("t", "k").cancel(), "there was none");
      check(client(fake).key("t", "k").get().isEmpty() && !client(fake).key("t", "k").reschedule(SHORT), "there is none");
    }
    try (Fake fake = new Fake(gone)) {
      client(fake).leases().ackMessage(id, new AckRequest().leaseToken("t"));
      check(fake.requests.size() == 2, fake.requests);
    }
    Fake.Script refused =
        (number, request) -> number == 1 ? Fake.problem(503, "redis_unavailable") : Fake.problem(404, "message_not_found");
    try (Fake fake = new Fake(refused)) {
      check(!client(fake).key("t", "k").cancel(), "nothing had happened");
    }
  }

  private static String key(Fake.Request request) {
    String head = request.head();
    int at = head.indexOf("Idempotency-Key: ");
    check(at > 0, head);
    return head.substring(at + 17, head.indexOf('\r', at));
  }

  /** Of a batch, only what may succeed later is repeated. */
  private static void batches() throws Exception {
    String ok = "{\"status\": \"ok\"}";
    Fake.Script script =
        (number, request) ->
            switch (number) {
              case 1 ->
                  Fake.answer(
                      200,
                      "{\"results\": [" + ok + ", {\"status\": \"outcome_unknown\"}, {\"status\": \"duplicate_key\"},"
                          + " {\"status\": \"redis_unavailable\"}]}");
              case 2 -> Fake.CUT;
              default -> Fake.answer(200, "{\"results\": [" + ok + ", {\"status\": \"topic_full\"}]}");
            };
    try (Fake fake = new Fake(script)) {
      var messages = List.of(new Publish(0), new Publish(1).key("k"), new Publish(2), new Publish(3).idempotencyKey("mine"));
      var statuses = client(fake).publishBatch("t", messages).stream().map(PublishResult::getStatus).toList();
      check(statuses.equals(List.of("ok", "ok", "duplicate_key", "topic_full")), statuses);
      String last = fake.requests.get(2).body();
      check(fake.requests.size() == 3 && last.equals(fake.requests.get(1).body()), fake.requests);
      check(last.contains("\"payload\":1") && last.contains("\"mine\"") && !last.contains("\"payload\":2"), last);
      String key = last.substring(last.indexOf("idempotency_key") + 18, last.indexOf("idempotency_key") + 54);
      check(fake.requests.get(0).body().contains(UUID.fromString(key).toString()), "the same keys");
    }
    String unknown = Fake.answer(200, "{\"results\": [{\"status\": \"outcome_unknown\"}]}");
    for (int silent : List.of(1, 2)) {
      try (Fake fake = new Fake((number, request) -> number == silent ? Fake.HANG : unknown)) {
        Duration timeout = silent == 1 ? Duration.ofMillis(500) : Duration.ofSeconds(5);
        Client client = Client.builder().url(fake.url()).timeout(timeout).retryFor(Duration.ofMillis(900)).build();
        long from = System.nanoTime();
        var result = client.publishBatch("t", List.of(new Publish(0))).get(0);
        long ms = (System.nanoTime() - from) / 1_000_000;
        check(result.getStatus().equals("outcome_unknown") && fake.requests.size() > 1 && ms < 1200, ms + " ms");
      }
    }
  }

  /** A message of a group is repeated as any other. */
  private static void groupsHaveKeysThatAreMadeUp() throws Exception {
    Fake.Script script =
        (number, request) -> {
          String status = "{\"status\": \"" + (number == 1 ? "outcome_unknown" : "duplicate_key") + "\"}";
          return Fake.answer(200, "{\"results\": [" + status + ", " + status + "]}");
        };
    try (Fake fake = new Fake(script)) {
      var first = client(fake).publishBatch("t", List.of(new Publish(1).group("g"), new Publish(2))).get(0);
      check(first.getStatus().equals("duplicate_key") && fake.requests.size() == 2, first + " " + fake.requests);
      check(fake.requests.get(0).body().split("idempotency_key", -1).length == 3, fake.requests);
    }
  }

  /** Once is once: what is not safe to repeat, and everything where repeating is off. */
  private static void notRepeated() throws Exception {
    try (Fake fake = new Fake((number, request) -> Fake.problem(503, "redis_unavailable"))) {
      Client client = client(fake);
      thrown(ProblemException.class, () -> client.redrive("t"));
      thrown(ProblemException.class, () -> client.topics().pauseTopic("t"));
      thrown(ProblemException.class, () -> client.leases().leaseMessages("t", null));
      thrown(ProblemException.class, () -> client.messages().publishMessage("t", new PublishRequest().payload(1), null));
      thrown(ProblemException.class, () -> client.service().getReadiness());
      Client once = Client.builder().url(fake.url()).retryFor(Duration.ZERO).build();
      thrown(ProblemException.class, () -> once.publish("t", 1));
      thrown(ProblemException.class, () -> client.withRetryFor(Duration.ZERO).topics().getTopic("t"));
      check(fake.requests.size() == 7 && !fake.requests.get(5).head().contains("Idempotency-Key"), fake.requests);
    }
  }

  /** In the end it is said what was wrong. */
  private static void deadline() throws Exception {
    try (Fake fake = new Fake((number, request) -> Fake.CUT)) {
      Client client = Client.builder().url(fake.url()).retryFor(Duration.ofMillis(600)).build();
      long from = System.nanoTime();
      thrown(ConnectionException.class, () -> client.publish("t", 1));
      check(fake.requests.size() > 1 && System.nanoTime() - from < 3_000_000_000L, fake.requests);
    }
  }

  private static void messages() throws Exception {
    String said;
    String invalid =
        "{\"code\": \"invalid_input\", \"detail\": \"not valid\","
            + " \"errors\": [{\"field\": \"on_duplicate\", \"reason\": \"can only be given with key\"}]}";
    try (Fake fake = new Fake((number, request) -> number == 1 ? Fake.answer(422, invalid) : Fake.answer(418, ""))) {
      said = thrown(ProblemException.class, () -> client(fake).publish("t", 1)).getMessage();
      check(said.equals("422 invalid_input: on_duplicate: can only be given with key"), said);
      said = thrown(ProblemException.class, () -> client(fake).publish("t", 1)).getMessage();
      check(said.equals("418 http_error: the answer says nothing more"), said);
    }
    try (Fake fake = new Fake((number, request) -> Fake.answer(200, "<html>", "Content-Type: text/html; charset=utf-8"))) {
      said = thrown(ConnectionException.class, () -> client(fake).topics().getTopic("t")).getMessage();
      check(said.equals("what answers at " + fake.url() + " is not dueq (GET /topics/t)"), said);
    }
    // JSON of something else.
    for (String other : List.of("{}", "", "{\"results\": []}")) {
      try (Fake fake = new Fake((number, request) -> Fake.answer(200, other, "Content-Type: application/json"))) {
        Client client = Client.builder().url(fake.url()).retryFor(Duration.ZERO).build();
        var operations =
            Map.<String, Runnable>of(
                "no published message in the answer (POST /topics/t%2F/messages)", () -> client.publish("t/", 1),
                "no published message in the answer (POST /callbacks)", () -> client.callback("http://x/"),
                "not one result for each message in the answer (POST /topics/t/messages/batch)",
                () -> client.publishBatch("t", List.of(1)));
        operations.forEach(
            (why, operation) -> {
              String unexpected = thrown(ConnectionException.class, operation).getMessage();
              check(unexpected.equals("what answers at " + fake.url() + " is not dueq: " + why), unexpected);
            });
      }
    }
    Client nobody = Client.builder().url("http://127.0.0.1:1/").retryFor(Duration.ZERO).build();
    said = thrown(ConnectionException.class, () -> nobody.publish("a b", 1)).getMessage();
    check(said.equals("cannot reach http://127.0.0.1:1: connection refused (POST /topics/a%20b/messages)"), said);
    thrown(IllegalArgumentException.class, () -> new Client("localhost:8080"));
    thrown(IllegalArgumentException.class, () -> new Publish(1).delay(Duration.ofMillis(-1)));
    thrown(IllegalArgumentException.class, () -> new Publish(1).ttl(Duration.ofSeconds(Long.MAX_VALUE)));
    check(thrown(NullPointerException.class, () -> nobody.callback(null)).getMessage().equals("url"), "a callback needs a URL");
  }

  /** A body that is left out is no null. */
  private static void bodies() throws Exception {
    String leased = "{\"messages\": [], \"redriven\": 0, \"remaining\": 0}";
    try (Fake fake = new Fake((number, request) -> Fake.answer(200, leased))) {
      LeaseResponse none = client(fake).leases().leaseMessages("t", null);
      check(none.getMessages().isEmpty() && client(fake).redrive("t") == 0, none);
      check(fake.requests.stream().allMatch(request -> request.body().equals("{}")), fake.requests);
    }
  }

  private static void closed() throws Exception {
    try (Fake fake = new Fake((number, request) -> Fake.HANG)) {
      Client client = client(fake);
      Worker worker = Worker.builder(client, "t", (message, lease) -> {}).build();
      client.close();
      String said = thrown(IllegalStateException.class, () -> client.publish("t", 1)).getMessage();
      check(said.equals("the client of " + fake.url() + " was closed"), said);
      thrown(IllegalStateException.class, () -> client.withTimeout(SHORT).topics().getTopic("t"));
      thrown(IllegalStateException.class, worker::run);
      thrown(IllegalStateException.class, () -> Worker.builder(client, "t", (message, lease) -> {}).build());
      String missing = thrown(NullPointerException.class, () -> Worker.builder(client, "t", null)).getMessage();
      check(missing.equals("a worker needs a handler"), missing);
      check(fake.requests.isEmpty(), fake.requests);
    }
    // A worker that waits for messages.
    try (Fake fake = new Fake((number, request) -> Fake.HANG)) {
      Client client = client(fake);
      Worker worker = Worker.builder(client, "t", (message, lease) -> {}).build();
      CompletableFuture<Void> run = CompletableFuture.runAsync(worker::run);
      while (fake.requests.isEmpty()) {
        Thread.sleep(5);
      }
      client.withTimeout(SHORT).close();
      try {
        run.get(10, TimeUnit.SECONDS);
        throw new AssertionError("it ended well");
      } catch (ExecutionException ended) {
        check(ended.getCause().getMessage().equals("the client of " + fake.url() + " was closed"), ended);
      }
    }
  }

  /** That the server is away is told once, and that it answers again. */
  private static void away() throws Exception {
    BlockingQueue<String> told = new LinkedBlockingQueue<>();
    Hooks hooks =
        new Hooks() {
          @Override
          public void onAway(String url, Throwable error) {
            told.add("away " + url + " " + error.getClass().getSimpleName());
          }

          @Override
          public void onBack(String url) {
            told.add("back " + url);
          }

          @Override
          public void onFailed(Delivery message, Throwable error) {
            told.add(error.getMessage());
          }
        };
    String none = "{\"messages\": []}";
    Fake.Script script =
        (number, request) ->
            switch (number) {
              case 1, 5 -> Fake.answer(200, none);
              case 2 -> Fake.CUT;
              case 3, 4 -> Fake.problem(503, "redis_unavailable");
              default -> Fake.HANG;
            };
    try (Fake fake = new Fake(script)) {
      Client client = Client.builder().url(fake.url()).timeout(SHORT).build();
      Worker worker = Worker.builder(client, "t", (message, lease) -> {}).waitMs(100).hooks(hooks).build();
      Thread thread = new Thread(worker::run);
      thread.start();
      check(told.poll(10, TimeUnit.SECONDS).equals("away " + fake.url() + " ConnectionException"), told);
      check(told.poll(10, TimeUnit.SECONDS).equals("back " + fake.url()), told);
      check(told.poll(10, TimeUnit.SECONDS).equals("away " + fake.url() + " RequestTimeoutException"), told);
      worker.close();
      check(told.isEmpty(), told);
    }
  }

  private static void refusedAtOnce() throws Exception {
    String secret = "secret\n";
    var error = thrown(IllegalArgumentException.class, () -> Client.builder().apiKey(secret).build());
    check(error.getMessage().startsWith("the API key has a") && !error.getMessage().contains("secret"), error);
    try (Fake fake = new Fake((number, request) -> Fake.published())) {
      Client client = client(fake);
      for (String part : List.of("", ".", "..")) {
        paths(client, part);
      }
      check(fake.requests.isEmpty(), fake.requests);
      check(client.publish("...", 1).getId() != null && fake.requests.remove(0).line().contains("/topics/.../"), fake.requests);
      client.publish("t", 1, with -> with.delay(Duration.ofNanos(100_000)).ttl(Duration.ofNanos(1_000_001)));
      String body = fake.requests.get(0).body();
      check(body.contains("\"delay_ms\":1,") && body.contains("\"ttl_ms\":2}"), body);
    }
  }

  /** Every parameter of a path, by the facade, the generated code and the worker. */
  private static void paths(Client client, String part) {
    var topics = client.topics();
    var messages = client.messages();
    var change = new UpdateMessageRequest().priority(1L);
    List<Runnable> requests =
        List.of(
            () -> client.key("t", part).get(),
            () -> client.key("t", part).cancel(),
            () -> client.key(part, "k").reschedule(SHORT),
            () -> client.publish(part, 1),
            () -> client.publishBatch(part, List.of(new Publish(1))),
            () -> client.dead(part).iterator(),
            () -> client.redrive(part),
            () -> messages.deleteMessageByKey("t", part, null),
            () -> messages.updateMessageByKey("t", part, change),
            () -> messages.publishRaw(part, new byte[0], null, null, null, null, null, null, null, null, null, null),
            () -> client.leases().leaseMessages(part, null),
            () -> topics.getTopic(part),
            () -> topics.deleteTopic(part, null),
            () -> topics.pauseTopic(part),
            () -> topics.forecastTopic(part, 1L, 1L),
            () -> client.schedules().deleteSchedule(part),
            () -> client.schedules().triggerSchedule(part),
            () -> Worker.builder(client, part, (message, lease) -> {}).build());
    for (Runnable request : requests) {
      String said = thrown(IllegalArgumentException.class, request).getMessage();
      check(said.startsWith("no path can have a part that is empty, \".\" or \"..\": /"), said);
    }
  }

  /** A Retry-After that is longer than any time of repeating. */
  private static void longSilence() throws Exception {
    try (Fake fake = new Fake((number, request) -> Fake.problem(503, "overloaded", "Retry-After: 10000000000"))) {
      var problem = thrown(ProblemException.class, () -> client(fake).publish("t", 1));
      check(problem.retryAfter().orElseThrow().equals(Duration.ofDays(1)) && fake.requests.size() == 1, problem);
      BlockingQueue<Throwable> failed = new LinkedBlockingQueue<>();
      Hooks hooks =
          new Quiet() {
            @Override
            public void onError(Throwable error) {
              failed.add(error);
            }
          };
      Worker worker = Worker.builder(client(fake), "t", (message, lease) -> {}).hooks(hooks).build();
      CompletableFuture<Void> run = CompletableFuture.runAsync(worker::run);
      check(failed.poll(10, TimeUnit.SECONDS) instanceof ProblemException, "a failed request");
      worker.close();
      run.get(10, TimeUnit.SECONDS);
    }
  }

  private static void workers() throws Exception {
    String nack = nackOf("{}", retry(Duration.ofNanos(100_000)));
    check(nack.contains("\"delay_ms\":1}"), nack);
    nack = nackOf("{}", retry(Duration.ofSeconds(Long.MAX_VALUE)));
    check(nack.contains("\"delay_ms\":315360000000}"), nack);
    // Without the value, which Jackson's message quotes.
    nack = nackOf("{\"orders\": [{\"order\": \"secret\"}]}", Handler.of(Orders.class, (orders, message, lease) -> {}));
    check(nack.contains("\"reason\":\"the payload does not fit Orders: orders.0.order\""), nack);
    try (Fake fake = new Fake((number, request) -> Fake.HANG)) {
      Worker worker = Worker.builder(client(fake), "t", (message, lease) -> {}).build();
      worker.close();
      worker.run();
      check(fake.requests.isEmpty(), "closed before it began");
    }
  }

  private static Handler retry(Duration delay) {
    return (message, lease) -> {
      throw new RetryIn(delay);
    };
  }

  record Orders(List<Order> orders) {}

  record Order(int order) {}

  /** The nack of a worker that first gets an answer that it cannot read, and whose nack's answer is lost. */
  private static String nackOf(String payload, Handler handler) throws Exception {
    BlockingQueue<String> told = new LinkedBlockingQueue<>();
    Hooks hooks =
        new Quiet() {
          @Override
          public void onLost(Delivery message) {
            told.add("lost");
          }

          @Override
          public void onError(Throwable error) {
            told.add(error.getMessage());
          }
        };
    String id = new UUID(0, 1).toString();
    String message = "{\"messages\": [{\"id\": \"%s\", \"lease_token\": \"t\", \"lease_ms\": 30000, \"payload\": %s}]}";
    AtomicInteger leases = new AtomicInteger();
    BlockingQueue<String> nacks = new LinkedBlockingQueue<>();
    Fake.Script script =
        (number, request) -> {
          if (request.line().contains("/lease")) {
            return switch (leases.incrementAndGet()) {
              case 1 -> Fake.answer(200, message.formatted("no-uuid", "1"));
              case 2 -> Fake.answer(200, message.formatted(id, payload));
              default -> Fake.HANG;
            };
          }
          nacks.add(request.body());
          return nacks.size() == 1
              ? Fake.CUT
              : Fake.answer(200, "{\"results\": [{\"id\": \"" + id + "\", \"status\": \"lease_lost\"}]}");
        };
    try (Fake fake = new Fake(script)) {
      Worker worker = Worker.builder(client(fake), "t", handler).hooks(hooks).build();
      CompletableFuture<Void> run = CompletableFuture.runAsync(worker::run);
      String unreadable = told.poll(10, TimeUnit.SECONDS);
      check(unreadable.startsWith("what answers at " + fake.url() + " is not dueq: Invalid UUID string"), unreadable);
      String cut = told.poll(10, TimeUnit.SECONDS);
      check(cut.startsWith("cannot reach " + fake.url()), cut);
      worker.close();
      run.get(10, TimeUnit.SECONDS);
      check(told.isEmpty() && nacks.size() == 2, told + " " + nacks);
      return nacks.peek();
    }
  }

  /** Hooks that log nothing. */
  private static class Quiet implements Hooks {
    @Override
    public void onFailed(Delivery message, Throwable error) {}

    @Override
    public void onAway(String url, Throwable error) {}

    @Override
    public void onBack(String url) {}
  }

  private static void webhooks() throws Exception {
    String secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    byte[] body = "{\"test\": 2432232314}".getBytes(StandardCharsets.UTF_8);
    // The specification's own example.
    check(
        signature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body)
            .equals("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
        "the test's own signature");
    String now = String.valueOf(Instant.now().getEpochSecond());
    String good = signature(secret, "id", now, body);
    Webhooks.verify(body, headers("id", now, good), secret);
    Webhooks.verify(body, headers("id", now, "v1a,x v1,eA== " + good), secret);
    Webhooks.verify(body, headers("id", now, good), List.of("whsec_b2xk", secret), Duration.ofSeconds(30));
    check(Webhooks.verify(new ByteArrayInputStream(body), headers("id", now, good), secret).length == body.length, "the body");
    handled(secret, body, headers("id", now, good));
    wrong("no signature in webhook-signature is right", new byte[0], headers("id", now, good), secret);
    wrong("no signature in webhook-signature is right", body, headers("id2", now, good), secret);
    wrong("no signature in webhook-signature is right", body, headers("id", now, good), "whsec_b2xk");
    wrong("no signature in webhook-signature is right", body, headers("id", now, good.substring(3)), secret);
    wrong("no signature in webhook-signature is right", body, headers("id", now, ""), secret);
    for (int seconds : List.of(-301, 301)) {
      String then = String.valueOf(Instant.now().getEpochSecond() + seconds + Integer.signum(seconds));
      String said = seconds < 0 ? "webhook-timestamp is too long ago" : "webhook-timestamp is in the future";
      wrong(said, body, headers("id", then, signature(secret, "id", then, body)), secret);
    }
    wrong("webhook-timestamp is no number of seconds", body, headers("id", "soon", good), secret);
    wrong("webhook-timestamp is no number of seconds", body, headers("id", "9223372036854775807", good), secret);
    wrong("the header webhook-id is missing", body, Map.of("webhook-timestamp", List.of(now)), secret);
    topics(secret, body, headers("id", now, good), "id:" + now + ":");
    publicKeys(secret);
    thrown(IllegalArgumentException.class, () -> Webhooks.verify(body, headers("id", now, good), "whsec_?"));
    thrown(IllegalArgumentException.class, () -> Webhooks.verify(body, headers("id", now, good), "whsec_"));
    String none = thrown(NullPointerException.class, () -> Webhooks.verify(body, headers("id", now, good), null)).getMessage();
    check("verify needs a secret".equals(none), none);
    thrown(IllegalArgumentException.class, () -> Webhooks.verify(body, headers("id", now, good), List.of(), SHORT));
  }

  /** The topic is verified with the body. */
  private static void topics(String secret, byte[] body, Map<String, List<String>> headers, String start) throws Exception {
    String good = hmac(secret, (start + "orders").getBytes(StandardCharsets.UTF_8));
    String old = hmac("whsec_b2xk", (start + "orders").getBytes(StandardCharsets.UTF_8));
    String other = hmac(secret, (start + "hooks").getBytes(StandardCharsets.UTF_8));
    Webhooks.verify(body, with(headers, "orders", good), secret);
    Webhooks.verify(body, with(headers, "orders", old + " " + good), secret);
    String unsigned = "no signature in dueq-signature is right for this topic";
    wrong(unsigned, body, with(headers, "orders", other), secret);
    wrong(unsigned, body, with(headers, "orders", old), secret);
    wrong(unsigned, body, with(headers, "orders", "v2" + good.substring(2)), secret);
    wrong(unsigned, body, with(headers, "orders", ""), secret);
    wrong("the header dueq-signature is missing", body, with(headers, "orders", null), secret);
    wrong("the header dueq-topic is missing", body, with(headers, null, good), secret);
    wrong("no signature in webhook-signature is right", new byte[0], with(headers, "orders", good), secret);
  }

  /** Public keys verify what dueq signs with its key pairs; as dueq's own tests have them. */
  private static void publicKeys(String secret) {
    String key = "whpk_XL9MzUGxc2s/gozEjuXB1blGuxvZRLLYCHL8skSJPaQ=";
    String good = "v1,AAAA v1a,NlkuXO2v0fFGNf9nJ+WLerVrsJD/MOd31wd28H6XBkiDTh9/z+ADuVpRq6KqXIi4zQxAINKVgt272/ZxtD4mCA==";
    String ofTopic = "v1a,fRPka8NyhfacLz4J5uvT51S1xG7Gt4v23/+bpTkpEQM4tq2dHeUPczdKYSuH5+pNW+fKkVmBdGS1VeV6X/ZnBw==";
    byte[] body = "{}".getBytes(StandardCharsets.UTF_8);
    Duration forever = Duration.ofDays(36500);
    var signed = headers("msg_1", "1763700000", good);
    Webhooks.verify(body, with(signed, "orders", ofTopic), List.of(key), forever);
    Webhooks.verify(body, with(signed, "orders", ofTopic), List.of(secret, key), forever);
    String otherKey = "whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
    for (Runnable wrong :
        List.<Runnable>of(
            () -> Webhooks.verify(new byte[0], signed, List.of(key), forever),
            () -> Webhooks.verify(body, signed, List.of(secret), forever),
            () -> Webhooks.verify(body, signed, List.of(otherKey), forever),
            () -> Webhooks.verify(body, with(signed, "hooks", ofTopic), List.of(key), forever),
            () -> Webhooks.verify(body, headers("msg_2", "1763700000", good), List.of(key), forever),
            () -> Webhooks.verify(body, headers("msg_1", "1763700000", good.replace("v1a,", "v1,")), List.of(key), forever),
            () -> Webhooks.verify(body, headers("msg_1", "1763700000", "v1a, v1a,AAAA v1a,?"), List.of(key), forever))) {
      String said = thrown(WebhookException.class, wrong).getMessage();
      check(said.startsWith("no signature"), said);
    }
    String noPoint = "whpk_" + Base64.getEncoder().encodeToString(new byte[] {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2});
    for (String bad : List.of("whpk_", "whpk_AAAA", "whpk_?", "whpk_" + key, noPoint)) {
      String said = thrown(IllegalArgumentException.class, () -> Webhooks.verify(body, signed, bad)).getMessage();
      check(said.contains("whpk_ and "), said);
    }
  }

  private static Map<String, List<String>> with(Map<String, List<String>> headers, String topic, String signature) {
    Map<String, List<String>> all = new HashMap<>(headers);
    if (topic != null) {
      all.put("Dueq-Topic", List.of(topic));
    }
    if (signature != null) {
      all.put("dueq-signature", List.of(signature));
    }
    return all;
  }

  private static Map<String, List<String>> headers(String id, String timestamp, String signature) {
    return Map.of("Webhook-Id", List.of(id), "WEBHOOK-TIMESTAMP", List.of(timestamp), "webhook-signature", List.of(signature));
  }

  /** By the JDK's server: only what is signed reaches the consumer. */
  private static void handled(String secret, byte[] body, Map<String, List<String>> headers) throws Exception {
    HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
    List<String> bodies = new CopyOnWriteArrayList<>();
    server.createContext("/good", new WebhookHandler(secret, bytes -> bodies.add(new String(bytes, StandardCharsets.UTF_8))));
    server.createContext("/bad", new WebhookHandler("whsec_b2xk", bytes -> bodies.add("bad")));
    server.start();
    for (String path : List.of("good", "bad")) {
      var request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + server.getAddress().getPort() + "/" + path));
      headers.forEach((name, values) -> request.header(name, values.get(0)));
      request.POST(HttpRequest.BodyPublishers.ofByteArray(body));
      int status = HttpClient.newHttpClient().send(request.build(), HttpResponse.BodyHandlers.discarding()).statusCode();
      check(status == (path.equals("good") ? 204 : 401), status);
    }
    server.stop(0);
    check(bodies.equals(List.of(new String(body, StandardCharsets.UTF_8))), bodies);
  }

  private static String signature(String secret, String id, String timestamp, byte[] body) throws Exception {
    return hmac(secret, (id + "." + timestamp + ".").getBytes(StandardCharsets.UTF_8), body);
  }

  private static String hmac(String secret, byte[]... parts) throws Exception {
    Mac mac = Mac.getInstance("HmacSHA256");
    mac.init(new SecretKeySpec(Base64.getDecoder().decode(secret.substring(6)), "HmacSHA256"));
    for (byte[] part : parts) {
      mac.update(part);
    }
    return "v1," + Base64.getEncoder().encodeToString(mac.doFinal());
  }

  private static void wrong(String said, byte[] body, Map<String, List<String>> headers, String secret) {
    String message = thrown(WebhookException.class, () -> Webhooks.verify(body, headers, secret)).getMessage();
    check(message.equals(said), message);
  }

  private static <E extends Exception> E thrown(Class<E> type, Runnable what) {
    try {
      what.run();
    } catch (RuntimeException error) {
      if (type.isInstance(error)) {
        return type.cast(error);
      }
      throw error;
    }
    throw new AssertionError("no " + type.getSimpleName());
  }

  private static void check(boolean good, Object otherwise) {
    Hard.check(good, otherwise);
  }
}

import dev.dueq.Client;
import dev.dueq.Handler;
import dev.dueq.Publish;
import dev.dueq.Worker;
import dev.dueq.api.MessagesApi.APIGetMessageRequest;
import dev.dueq.model.BackoffKind;
import dev.dueq.model.BackoffRequest;
import dev.dueq.model.KeyUntil;
import dev.dueq.model.LeaseRequest;
import dev.dueq.model.Message;
import dev.dueq.model.NackBatchItem;
import dev.dueq.model.NackBatchRequest;
import dev.dueq.model.OnDuplicate;
import dev.dueq.model.PublishedMessage;
import dev.dueq.model.PutTopicRequest;
import dev.dueq.model.TopicItem;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import java.util.stream.StreamSupport;

/** The methods of the client against a real server. */
final class Facade {
  private Facade() {}

  static void run(Client client, String topic) throws InterruptedException {
    options(client, topic + "-options");
    keys(client, topic + "-keys");
    lists(client, topic + "-lists");
    worker(client, topic + "-urgent", topic + "-bulk");
  }

  record Order(int order) {}

  /** Two topics, the first before the second; typed payloads; what a handler publishes belongs to the trace of its message. */
  private static void worker(Client client, String urgent, String bulk) throws InterruptedException {
    client.publish(bulk, new Order(1), with -> with.header("Traceparent", "00-trace"));
    client.publish(urgent, new Order(2));
    List<Integer> handled = new CopyOnWriteArrayList<>();
    CountDownLatch both = new CountDownLatch(2);
    Handler handler =
        Handler.of(
            Order.class,
            (order, message, lease) -> {
              handled.add(order.order());
              client.publish(urgent + "-next", order);
              client.publish(urgent + "-next", order, with -> with.header("traceparent", "own"));
              both.countDown();
            });
    Worker worker = Worker.builder(client, List.of(urgent, bulk), handler).concurrency(1).build();
    new Thread(worker::run).start();
    check(both.await(20, TimeUnit.SECONDS), handled);
    worker.close();
    check(handled.equals(List.of(2, 1)), handled);
    check(client.topics().getTopic(bulk).getTotals().getAcked() == 1, "acked");
    var next = client.leases().leaseMessages(urgent + "-next", new LeaseRequest().maxMessages(9L)).getMessages();
    var traces = next.stream().map(message -> String.valueOf(message.getHeaders().get("traceparent"))).toList();
    check(traces.equals(List.of("null", "own", "00-trace", "own")), traces);
  }

  /** Every option arrives. */
  private static void options(Client client, String topic) {
    Instant due = Instant.parse("2100-01-01T00:00:00.123Z");
    PublishedMessage published =
        client.publish(
            topic,
            new byte[] {0, -1},
            with ->
                with.at(due)
                    .contentType("image/png")
                    .key("order/ü 1")
                    .onDuplicate(OnDuplicate.REPLACE)
                    .keyUntil(KeyUntil.GRANTED)
                    .idempotencyKey("once")
                    .priority(9)
                    .ttl(Duration.ofHours(1))
                    .maxAttempts(3)
                    .backoff(new BackoffRequest().kind(BackoffKind.FIXED).baseMs(5L))
                    .header("a", "b"));
    Message message = client.key(topic, "order/ü 1").get().orElseThrow();
    check(message.getId().equals(published.getId()), message);
    check(message.getDueAt().equals(OffsetDateTime.ofInstant(due, ZoneOffset.UTC)), message);
    check(message.getPayloadBase64().equals(Base64.getEncoder().encodeToString(new byte[] {0, -1})), message);
    check(message.getContentType().equals("image/png") && message.getHeaders().equals(Map.of("a", "b")), message);
    check(message.getPriority() == 9 && message.getAttemptsLeft() == 3, message);
    check(client.publish(topic, null).getDuplicate().equals(false), "null is a payload");
    PublishedMessage call = client.callback("https://example.com/", Map.of("a", 1), with -> with.delay(Duration.ofDays(1)));
    check(client.messages().getMessage(APIGetMessageRequest.newBuilder().id(call.getId()).build()).getCallback().getUrl().equals("https://example.com/"), call);
    client.messages().deleteMessage(call.getId(), null);
    Duration second = Duration.ofSeconds(1);
    call = client.callback("https://example.com/", new byte[] {1}, with -> with.delay(Duration.ofDays(1)).timeout(second));
    check(client.messages().getMessage(APIGetMessageRequest.newBuilder().id(call.getId()).build()).getCallback().getTimeoutMs() == 1000, call);
    client.messages().deleteMessage(call.getId(), null);
  }

  private static void keys(Client client, String topic) {
    check(!client.key(topic, "k").cancel() && client.key(topic, "k").get().isEmpty(), "no such topic");
    client.publish(topic, 1, with -> with.delay(Duration.ofHours(1)).key("k"));
    Instant due = Instant.parse("2100-01-01T00:00:00Z");
    check(client.key(topic, "k").reschedule(due), "moved");
    check(client.key(topic, "k").get().orElseThrow().getDueAt().toInstant().equals(due), "moved");
    check(client.key(topic, "k").reschedule(Duration.ofHours(2)) && client.key(topic, "k").cancel(), "moved and cancelled");
    check(!client.key(topic, "k").reschedule(Duration.ZERO), "there is none");
  }

  /** More than a page of topics, and of the dead. */
  private static void lists(Client client, String topic) {
    client.topics().putTopic(topic, new PutTopicRequest().maxAttempts(1L), null);
    List<Publish> messages = IntStream.range(0, 120).mapToObj(n -> new Publish(Map.of("n", n))).toList();
    check(client.publishBatch(topic, messages).stream().allMatch(result -> result.getStatus().equals("ok")), "published");
    client.publishBatch(topic, messages);
    check(client.topics().getTopic(topic).getCounts().getReady() == 240, "a Publish may be used again");
    var leased = client.leases().leaseMessages(topic, new LeaseRequest().maxMessages(240L)).getMessages();
    var nacks = new NackBatchRequest();
    leased.forEach(
        message ->
            nacks.addMessagesItem(
                new NackBatchItem().id(message.getId()).leaseToken(message.getLeaseToken()).dead(true)));
    client.leases().nackBatch(nacks);
    check(client.dead(topic).stream().map(Message::getPayload).distinct().count() == 120, "with payloads");
    check(StreamSupport.stream(client.dead(topic).spliterator(), false).count() == 240, "all pages");
    Message first = client.dead(topic).iterator().next();
    check(client.redrive(first.getId()).getId().equals(first.getId()), first);
    check(client.redrive(topic, 9) == 9 && client.redrive(topic) == 230 && client.redrive(topic) == 0, "redriven");
    check(client.listTopics(topic).stream().map(TopicItem::getName).toList().equals(List.of(topic)), "topics");
    check(client.listTopics().stream().anyMatch(item -> item.getName().equals(topic)), "all topics");
  }

  private static void check(boolean good, Object otherwise) {
    Hard.check(good, otherwise);
  }
}

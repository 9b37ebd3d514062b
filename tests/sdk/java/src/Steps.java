import com.fasterxml.jackson.core.JsonProcessingException;
import dev.dueq.Client;
import dev.dueq.ProblemException;
import dev.dueq.api.MessagesApi.APIGetMessageRequest;
import dev.dueq.model.*;
import java.net.URI;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.function.Consumer;

/** The steps of tests/sdk/steps.md through the typed client, one JSON object a line. */
final class Steps {
  private final Client client;
  private final String topic;
  private final Consumer<String> out;

  /** A step is a line to this. */
  Steps(Client client, String topic, Consumer<String> out) {
    this.client = client;
    this.topic = topic;
    this.out = out;
  }

  /** Takes all steps but these. */
  void run(Set<String> without) {
    publishing();
    leasing();
    changing();
    Map<String, Runnable> steps = new LinkedHashMap<>();
    steps.put("configure", this::configure);
    steps.put("reset", this::reset);
    steps.put("pause", this::pause);
    steps.put("list", this::list);
    steps.put("drop", this::drop);
    steps.put("refused", this::refused);
    steps.put("callback", this::callback);
    steps.put("callback_refused", this::callbackRefused);
    steps.put("schedule", this::schedule);
    steps.put("trigger", this::trigger);
    steps.put("payload", this::payload);
    new OwnSteps(client, topic, this::print).into(steps);
    steps.keySet().removeAll(without);
    steps.values().forEach(Runnable::run);
  }

  private void publishing() {
    var payload = new LinkedHashMap<String, Object>();
    payload.put("order", 42);
    payload.put("items", Arrays.asList(null, false, Map.of("n", 1.5)));
    payload.put("note", "ü");
    var order = new PublishRequest().payload(payload).key("order/42").headers(Map.of("source", "sdk")).priority(7L);
    PublishedMessage first = client.publish(topic, order);
    print("publish", "state", first.getState(), "duplicate", first.getDuplicate());
    PublishedMessage second = client.publish(topic, order);
    print("duplicate", "duplicate", second.getDuplicate(), "same_id", second.getId().equals(first.getId()));

    var once = new PublishRequest().payload("once");
    first = client.messages().publishMessage(topic, once, "once");
    second = client.messages().publishMessage(topic, once, "once");
    print("idempotent", "duplicate", second.getDuplicate(), "same_id", second.getId().equals(first.getId()));

    print("delayed", "state", client.publish(topic, new PublishRequest().payload(null).delayMs(5000L)).getState());

    var batch =
        new PublishBatchRequest()
            .addMessagesItem(new PublishRequest().payload(false))
            .addMessagesItem(new PublishRequest().payload(1).key("order/42").onDuplicate(OnDuplicate.REJECT))
            .addMessagesItem(new PublishRequest().payloadBase64("AP8=").contentType("image/png"));
    var results = client.messages().publishBatch(topic, batch).getResults();
    print("batch", "statuses", results.stream().map(PublishResult::getStatus).toList());

    Message message = client.messages().getMessageByKey(topic, "order/42");
    print(
        "get",
        "state", message.getState(),
        "attempts", message.getAttempts(),
        "headers", message.getHeaders(),
        "priority", message.getPriority(),
        "payload", message.getPayload());
  }

  private void leasing() {
    LeasedMessage leased = lease(new LeaseRequest().leaseMs(30_000L)).get(0);
    String stale = leased.getLeaseToken();
    UUID id = leased.getId();
    print(
        "lease",
        "key", leased.getKey(),
        "attempt", leased.getAttempt(),
        "attempts_left", leased.getAttemptsLeft(),
        "headers", leased.getHeaders(),
        "priority", leased.getPriority(),
        "payload", leased.getPayload());
    var extended = client.leases().extendLease(id, new ExtendRequest().leaseToken(stale).leaseMs(60_000L));
    print("extend", "lease_ms", extended.getLeaseMs());
    var nacked = client.leases().nackMessage(id, new NackRequest().leaseToken(stale).delayMs(0L).reason("later"));
    print("nack", "state", nacked.getState(), "attempt", nacked.getAttempt());
    refused("stale", () -> client.leases().ackMessage(id, new AckRequest().leaseToken(stale)));
    LeasedMessage again = lease(new LeaseRequest()).get(0);
    var token = new AckRequest().leaseToken(again.getLeaseToken());
    client.leases().ackMessage(id, token);
    print("again", "key", again.getKey(), "attempt", again.getAttempt());
    refused("gone", () -> client.leases().ackMessage(id, token));

    List<LeasedMessage> three = lease(new LeaseRequest().maxMessages(10L));
    var acks = new AckBatchRequest();
    List<Object> payloads = new ArrayList<>();
    for (LeasedMessage message : three) {
      acks.addMessagesItem(new AckBatchItem().id(message.getId()).leaseToken(message.getLeaseToken()));
      payloads.add(
          message.getPayloadBase64() == null
              ? message.getPayload()
              : Map.of("base64", message.getPayloadBase64(), "content_type", message.getContentType()));
    }
    var acked = client.leases().ackBatch(acks).getResults();
    print("three", "payloads", payloads, "acks", acked.stream().map(AckResult::getStatus).toList());

    long from = System.nanoTime();
    LeasedMessage late = lease(new LeaseRequest().waitMs(20_000L)).get(0);
    boolean waited = System.nanoTime() - from >= Duration.ofMillis(200).toNanos();
    var poll = step("poll");
    if (late.getPayload_JsonNullable().isPresent()) {
      poll.put("payload", late.getPayload());
    }
    poll.put("waited", waited);
    print(poll);
    var ack = new LeaseAck().id(late.getId()).leaseToken(late.getLeaseToken());
    LeaseResponse ride = client.leases().leaseMessages(topic, new LeaseRequest().addAcksItem(ack));
    print("ride", "messages", ride.getMessages().size(), "acks", ride.getAcks().stream().map(AckOutcome::getStatus).toList());
  }

  private void changing() {
    client.publish(topic, new PublishRequest().payload(1).key("cart").delayMs(3_600_000L));
    var change = new UpdateMessageRequest().priority(9L).delayMs(7_200_000L);
    Message cart = client.messages().updateMessageByKey(topic, "cart", change);
    boolean moved = Duration.between(cart.getPublishedAt(), cart.getDueAt()).toSeconds() > 7000;
    print("update", "state", cart.getState(), "priority", cart.getPriority(), "moved", moved);
    client.messages().deleteMessageByKey(topic, "cart", null);
    refused("delete", () -> client.messages().getMessageByKey(topic, "cart"));

    UUID id = client.publish(topic, new PublishRequest().payload("poison")).getId();
    String token = lease(new LeaseRequest()).get(0).getLeaseToken();
    client.leases().nackMessage(id, new NackRequest().leaseToken(token).dead(true).reason("no such order"));
    Message dead = client.messages().getMessage(APIGetMessageRequest.newBuilder().id(id).build());
    print("dead", "state", dead.getState(), "last_error", dead.getLastError(), "attempts", dead.getAttempts());
    print("redrive", "state", client.messages().redriveMessage(id).getState());
    client.messages().deleteMessage(id, null);
  }

  private void payload() {
    byte[] every = new byte[256];
    for (int at = 0; at < every.length; at++) {
      every[at] = (byte) at;
    }
    var base64 = Base64.getEncoder();
    var request = new PublishRequest().payloadBase64(base64.encodeToString(every)).delayMs(3_600_000L);
    UUID id = client.publish(topic, request).getId();
    byte[] came = client.messages().getMessagePayload(id);
    client.messages().deleteMessage(id, null);
    print("payload", "base64", base64.encodeToString(came));
  }

  private String configured() {
    return topic + "-config";
  }

  private void configure() {
    var wanted =
        new PutTopicRequest()
            .leaseMs(60_000L)
            .maxAttempts(3L)
            .backoff(new BackoffRequest().kind(BackoffKind.SCHEDULE).delaysMs(List.of(1000L, 5000L)))
            .retention(new RetentionRequest().ackedMs(1000L));
    client.topics().putTopic(configured(), wanted, null);
    TopicConfig config = client.topics().getTopic(configured()).getConfig();
    print(
        "configure",
        "lease_ms", config.getLeaseMs(),
        "max_attempts", config.getMaxAttempts(),
        "backoff", config.getBackoff(),
        "retention", config.getRetention());
  }

  private void reset() {
    var change = new UpdateTopicRequest().maxAttempts(null).leaseMs(45_000L);
    TopicConfig config = client.topics().updateTopic(configured(), change, null).getConfig();
    print("reset", "lease_ms", config.getLeaseMs(), "max_attempts", config.getMaxAttempts());
  }

  private void pause() {
    Boolean paused = client.topics().pauseTopic(configured()).getPaused();
    print("pause", "paused", List.of(paused, client.topics().resumeTopic(configured()).getPaused()));
  }

  private void list() {
    var items = client.topics().listTopics(configured(), null, null).getItems();
    print("list", "names", items.stream().map(item -> item.getName().replace(topic, "T")).toList());
  }

  private void drop() {
    client.topics().deleteTopic(configured(), null);
    refused("drop", () -> client.topics().getTopic(configured()));
  }

  private void refused() {
    var both = new PublishRequest().payload(1).delayMs(1L).deliverAt(OffsetDateTime.parse("2030-01-01T00:00:00Z"));
    ProblemException problem = refusal(() -> client.publish(topic, both));
    var fields = problem.errors().stream().map(FieldError::getField).toList();
    print("refused", "status", problem.status(), "code", problem.code(), "fields", fields);
  }

  private void callback() {
    var later =
        new ScheduleCallbackRequest()
            .url(URI.create("https://example.com/hook"))
            .payload(Map.of("order", 42))
            .delayMs(3_600_000L)
            .key(topic);
    UUID id = client.callbacks().scheduleCallback(later, null).getId();
    Message callback = client.messages().getMessage(APIGetMessageRequest.newBuilder().id(id).build());
    print("callback", "topic", callback.getTopic(), "state", callback.getState(), "url", callback.getCallback().getUrl());
    client.messages().deleteMessage(id, null);
  }

  private void callbackRefused() {
    var inside = new ScheduleCallbackRequest().url(URI.create("http://10.0.0.1/"));
    refused("callback_refused", () -> client.callbacks().scheduleCallback(inside, null));
  }

  private void schedule() {
    var wanted =
        new PutScheduleRequest()
            .cron("0 9 * * MON-FRI")
            .timezone("Europe/Berlin")
            .topic(topic + "-ticks")
            .message(new ScheduledMessageRequest().payload("daily"));
    client.schedules().putSchedule(topic, wanted);
    Schedule schedule = client.schedules().getSchedule(topic);
    print(
        "schedule",
        "cron", schedule.getCron(),
        "timezone", schedule.getTimezone(),
        "paused", schedule.getPaused(),
        "has_next", schedule.getNextAt() != null);
  }

  private void trigger() {
    client.schedules().triggerSchedule(topic);
    Boolean paused = client.schedules().pauseSchedule(topic).getPaused();
    client.schedules().deleteSchedule(topic);
    ProblemException problem = refusal(() -> client.schedules().getSchedule(topic));
    print("trigger", "paused", paused, "status", problem.status(), "code", problem.code());
  }

  private List<LeasedMessage> lease(LeaseRequest request) {
    return client.leases().leaseMessages(topic, request).getMessages();
  }

  private static ProblemException refusal(Runnable request) {
    try {
      request.run();
    } catch (ProblemException problem) {
      return problem;
    }
    throw new IllegalStateException("the server did not refuse it");
  }

  private void refused(String name, Runnable request) {
    ProblemException problem = refusal(request);
    print(name, "status", problem.status(), "code", problem.code());
  }

  private static Map<String, Object> step(String name) {
    Map<String, Object> step = new LinkedHashMap<>();
    step.put("step", name);
    return step;
  }

  private void print(String name, Object... members) {
    Map<String, Object> step = step(name);
    for (int i = 0; i < members.length; i += 2) {
      step.put((String) members[i], members[i + 1]);
    }
    print(step);
  }

  private void print(Map<String, Object> step) {
    try {
      out.accept(client.mapper().writeValueAsString(step));
    } catch (JsonProcessingException error) {
      throw new IllegalStateException(error);
    }
  }
}

package dev.dueq.testing;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.format.DateTimeFormatter;
import java.time.format.DateTimeFormatterBuilder;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.function.BooleanSupplier;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/** The messages of a {@link TestServer}, and its clock. Its methods take and return the JSON of dueq's routes. */
final class Queue {
  /** A request that dueq refuses. */
  static final class Refusal extends RuntimeException {
    private static final long serialVersionUID = 1L;

    final int status;
    final String code;
    /** The invalid field; null unless the input is invalid. */
    final String field;

    Refusal(int status, String code, String field) {
      super(code);
      this.status = status;
      this.code = code;
      this.field = field;
    }
  }

  /** The answer to an idempotency key. */
  private record Remembered(ObjectNode request, ObjectNode answer, Instant until) {}

  /** The latest interval of a throttle; its message is due at its beginning. */
  private record Interval(Instant begin, Instant end, Entry entry) {}

  private static final class Entry {
    /** What does not change by itself: id, topic, key, payload and so on. */
    final ObjectNode content = NODES.objectNode();

    String state;
    Instant due;
    String token;
    Instant leasedUntil;
    Instant died;
    long attempts;
    long attemptsLeft;
    long maxAttempts;
    int failures;
    boolean freesKeyWhenGranted;

    boolean is(String wanted) {
      return state.equals(wanted);
    }
  }

  // The defaults of a topic.
  private static final Duration LEASE = Duration.ofSeconds(30);
  private static final Duration IDEMPOTENCY_WINDOW = Duration.ofMinutes(10);
  private static final long MAX_ATTEMPTS = 10;
  private static final long LONGEST_BACKOFF_MS = 3_600_000;

  private static final long LONGEST_LEASE_MS = Duration.ofHours(12).toMillis();
  private static final long TEN_YEARS_MS = Duration.ofDays(3650).toMillis();
  private static final Pattern TOPIC = Pattern.compile("(?!.*\\.\\.)[A-Za-z0-9_][A-Za-z0-9._-]{0,127}");
  private static final JsonNodeFactory NODES = JsonNodeFactory.instance;
  private static final DateTimeFormatter INSTANT = new DateTimeFormatterBuilder().appendInstant(3).toFormatter();

  private final List<Entry> entries = new ArrayList<>(); // in the order of publishing, without those that are acknowledged
  private final Set<String> topics = new TreeSet<>();
  private final Map<List<String>, Remembered> remembered = new HashMap<>();
  private final Map<List<String>, Interval> throttled = new HashMap<>();
  private Duration ahead = Duration.ZERO;
  private boolean closed;

  synchronized void advance(Duration by) {
    ahead = ahead.plus(by);
    notifyAll();
  }

  /** Long polls end. */
  synchronized void close() {
    closed = true;
    notifyAll();
  }

  synchronized ObjectNode publish(String topic, ObjectNode message, String idempotencyKey) {
    requireValid(topic, message, "");
    return take(topic, message, idempotencyKey);
  }

  synchronized ObjectNode publishBatch(String topic, JsonNode messages) {
    if (messages.isEmpty() || messages.size() > 1000) {
      throw invalid("messages");
    }
    for (int i = 0; i < messages.size(); i++) {
      requireValid(topic, messages.get(i), "messages[" + i + "].");
    }
    ArrayNode results = NODES.arrayNode();
    for (JsonNode message : messages) {
      ObjectNode result = results.addObject();
      try {
        result.set("message", take(topic, (ObjectNode) message, null));
        result.put("status", "ok");
      } catch (Refusal refusal) {
        result.put("status", refusal.code);
      }
    }
    return NODES.objectNode().set("results", results);
  }

  synchronized ObjectNode callback(ObjectNode request, String idempotencyKey) {
    requireConsistent(request, "");
    ObjectNode message = request.deepCopy();
    ObjectNode callback = message.putObject("callback");
    for (String field : List.of("url", "method", "timeout_ms", "connect_timeout_ms", "retry", "auth", "client_cert")) {
      Optional.ofNullable(message.remove(field)).ifPresent(value -> callback.set(field, value));
    }
    if (!callback.has("url")) {
      throw invalid("url");
    }
    return take("_callbacks", message, idempotencyKey);
  }

  private static void requireValid(String topic, JsonNode message, String path) {
    if (!TOPIC.matcher(topic).matches()) {
      throw new Refusal(400, "invalid_topic_name", null);
    }
    if (topic.startsWith("_")) {
      throw new Refusal(403, "topic_reserved", null);
    }
    if (message.has("payload") == message.has("payload_base64")) {
      throw invalid(path + "payload");
    }
    requireConsistent(message, path);
  }

  private static void requireConsistent(JsonNode message, String path) {
    if (message.has("delay_ms") && message.has("deliver_at")) {
      throw invalid(path + "deliver_at");
    }
    List<String> policies = Stream.of("debounce", "throttle", "once").filter(message::has).toList();
    Stream<String> others = Stream.of("debounce", "throttle", "once", "key", "idempotency_key", "delay_ms", "deliver_at");
    others
        .filter(field -> !policies.isEmpty() && message.has(field) && !field.equals(policies.get(0)))
        .filter(field -> !policies.get(0).equals("once") || !Set.of("delay_ms", "deliver_at").contains(field))
        .findFirst()
        .ifPresent(field -> {
          throw invalid(path + field);
        });
    requireWithin(message, path, "priority", 0, 255);
    requireWithin(message, path, "max_attempts", 1, 1000);
    requireWithin(message, path, "delay_ms", 0, TEN_YEARS_MS);
    for (String field : List.of("on_duplicate", "key_until")) {
      if (message.has(field) && !message.has("key")) {
        throw invalid(path + field);
      }
    }
  }

  private static void requireWithin(JsonNode request, String path, String field, long least, long most) {
    long value = request.path(field).asLong(least);
    if (value < least || value > most) {
      throw invalid(path + field);
    }
  }

  private static Refusal invalid(String field) {
    return new Refusal(422, "invalid_input", field);
  }

  private ObjectNode take(String topic, ObjectNode message, String idempotencyKey) {
    Instant now = tick();
    ObjectNode request = message.deepCopy();
    JsonNode own = request.remove("idempotency_key");
    List<String> name = List.of(topic, idempotencyKey != null ? idempotencyKey : own != null ? own.asText() : "");
    Duration window = IDEMPOTENCY_WINDOW;
    JsonNode once = request.get("once");
    if (once != null) {
      name = List.of(topic, once.path("key").asText(), "once");
      window = Duration.ofMillis(once.path("for_ms").asLong());
    }
    JsonNode debounce = request.remove("debounce");
    if (debounce != null) {
      request.put("on_duplicate", "replace").put("key_until", "granted");
      request.set("key", debounce.get("key"));
      request.set("delay_ms", debounce.get("delay_ms"));
    }
    Remembered before = remembered.get(name);
    if (before != null && before.until.isAfter(now)) {
      if (once == null && !before.request.equals(request)) {
        throw new Refusal(422, "idempotency_key_reused", null);
      }
      return before.answer.deepCopy().put("duplicate", true);
    }
    Entry entry = live(topic, request.path("key").asText(null));
    Instant due = due(request).orElse(now);
    if (debounce != null && debounce.has("max_wait_ms")) {
      Instant first = entry == null ? now : Instant.parse(entry.content.get("published_at").asText());
      Instant latest = first.plusMillis(debounce.get("max_wait_ms").asLong());
      due = latest.isBefore(due) ? latest : due;
    }
    String onDuplicate = request.path("on_duplicate").asText("return");
    JsonNode throttle = request.remove("throttle");
    if (throttle != null) {
      onDuplicate = "replace";
      Interval last = throttled.getOrDefault(List.of(topic, throttle.path("key").asText()), new Interval(now, now, null));
      boolean isAhead = last.begin.isAfter(now);
      due = isAhead ? last.begin : last.end.isAfter(now) ? last.end : now;
      entry = isAhead && entries.contains(last.entry) && (last.entry.is("delayed") || last.entry.is("ready")) ? last.entry : null;
    }
    boolean duplicate = entry != null;
    if (duplicate && onDuplicate.equals("reject")) {
      throw new Refusal(409, "duplicate_key", null);
    }
    if (!duplicate) {
      entry = new Entry();
      entry.content.put("id", UUID.randomUUID().toString()).put("topic", topic).put("published_at", INSTANT.format(now));
      entries.add(entry);
      topics.add(topic);
    }
    if (!duplicate || onDuplicate.equals("replace")) {
      requireNotLeased(entry);
      fill(entry, request, due);
    }
    ObjectNode answer = NODES.objectNode().put("duplicate", duplicate);
    shown(entry).properties().stream()
        .filter(field -> List.of("id", "topic", "state", "due_at", "published_at").contains(field.getKey()))
        .forEach(field -> answer.set(field.getKey(), field.getValue()));
    if (!name.get(1).isEmpty()) {
      remembered.put(name, new Remembered(request, answer.deepCopy(), now.plus(window)));
    }
    if (throttle != null) {
      Instant end = due.plusMillis(throttle.path("every_ms").asLong());
      throttled.put(List.of(topic, throttle.path("key").asText()), new Interval(due, end, entry));
    }
    return answer;
  }

  private void fill(Entry entry, ObjectNode request, Instant due) {
    entry.content.remove(List.of("payload", "payload_base64", "content_type", "callback"));
    entry.content.put("priority", 0).putObject("headers");
    for (String field : List.of("key", "payload", "payload_base64", "content_type", "callback", "priority", "headers")) {
      if (request.has(field)) {
        entry.content.set(field, request.get(field));
      }
    }
    entry.freesKeyWhenGranted = request.path("key_until").asText().equals("granted");
    entry.maxAttempts = request.path("max_attempts").asLong(MAX_ATTEMPTS);
    entry.attemptsLeft = entry.maxAttempts;
    delay(entry, due);
  }

  synchronized ObjectNode lease(List<String> from, JsonNode request, BooleanSupplier clientIsGone) throws InterruptedException {
    requireWithin(request, "", "max_messages", 1, 1000);
    requireWithin(request, "", "lease_ms", 1000, LONGEST_LEASE_MS);
    requireWithin(request, "", "wait_ms", 0, 60_000);
    ObjectNode answer = NODES.objectNode();
    ArrayNode acks = answer.putArray("acks");
    request.path("acks").forEach(ack -> acks.add(settle("ack", ack)));
    ArrayNode messages = answer.putArray("messages");
    Duration lease = request.has("lease_ms") ? Duration.ofMillis(request.get("lease_ms").asLong()) : LEASE;
    long end = System.nanoTime() + Duration.ofMillis(request.path("wait_ms").asLong()).toNanos();
    while (true) {
      Instant now = tick();
      List<Entry> ready = from.stream().map(topic -> list(topic, "ready")).filter(some -> !some.isEmpty()).findFirst().orElse(List.of());
      if (!ready.isEmpty() && !clientIsGone.getAsBoolean()) {
        ready.stream().limit(request.path("max_messages").asLong(1)).forEach(entry -> messages.add(grant(entry, now, lease)));
      }
      long leftMs = (end - System.nanoTime()) / 1_000_000;
      if (!ready.isEmpty() || leftMs <= 0 || closed) {
        return answer;
      }
      wait(Math.min(leftMs, untilNext(now)));
    }
  }

  private ObjectNode grant(Entry entry, Instant now, Duration lease) {
    entry.state = "leased";
    entry.token = UUID.randomUUID().toString();
    entry.leasedUntil = now.plus(lease);
    entry.attempts++;
    entry.attemptsLeft--;
    ObjectNode granted = shown(entry);
    granted.remove(List.of("state", "callback", "last_error", "attempts"));
    return granted
        .put("attempt", entry.attempts)
        .put("due_at", INSTANT.format(entry.due))
        .put("lease_token", entry.token)
        .put("lease_ms", lease.toMillis());
  }

  synchronized ObjectNode settleBatch(String verb, JsonNode items) {
    ArrayNode results = NODES.arrayNode();
    items.forEach(item -> results.add(settle(verb, item)));
    return NODES.objectNode().set("results", results);
  }

  /** Null: there is no content. */
  synchronized ObjectNode settleOne(String verb, String id, ObjectNode item) {
    ObjectNode result = settle(verb, item.put("id", id));
    String status = result.remove("status").asText();
    if (!status.equals("ok")) {
      throw new Refusal(status.equals("lease_lost") ? 409 : 404, status, null);
    }
    return verb.equals("ack") ? null : result;
  }

  private ObjectNode settle(String verb, JsonNode item) {
    Instant now = tick();
    String id = item.path("id").asText();
    ObjectNode result = NODES.objectNode().put("id", id);
    Entry entry = byId(id).orElse(null);
    if (entry == null) {
      return result.put("status", "message_not_found");
    }
    if (!entry.is("leased") || !entry.token.equals(item.path("lease_token").asText())) {
      return result.put("status", "lease_lost");
    }
    switch (verb) {
      case "ack" -> entries.remove(entry);
      case "extend" -> {
        Instant until = now.plusMillis(item.path("lease_ms").asLong());
        entry.leasedUntil = until.isAfter(entry.leasedUntil) ? until : entry.leasedUntil;
        result.put("lease_ms", now.until(entry.leasedUntil, ChronoUnit.MILLIS)).set("lease_expires_at", shown(entry).get("lease_expires_at"));
      }
      default -> {
        nack(entry, item, now);
        result.put("attempt", entry.attempts).setAll(shown(entry).retain("id", "state", "due_at"));
      }
    }
    return result.put("status", "ok");
  }

  private void nack(Entry entry, JsonNode item, Instant now) {
    if (item.has("reason")) {
      entry.content.set("last_error", item.get("reason"));
    }
    long backoffMs = Math.min(1000L << Math.min(entry.failures, 20), LONGEST_BACKOFF_MS);
    if (item.path("release").asBoolean()) {
      entry.attemptsLeft++;
      backoffMs = 0;
    } else if (item.path("dead").asBoolean()) {
      entry.attemptsLeft = 0;
    } else {
      entry.failures++;
    }
    comeBack(entry, now.plusMillis(item.path("delay_ms").asLong(backoffMs)));
  }

  private void comeBack(Entry entry, Instant due) {
    if (entry.attemptsLeft > 0) {
      delay(entry, due);
    } else {
      entry.state = "dead";
      entry.died = now();
    }
  }

  /** It is due then; a due time that has passed means now. */
  private void delay(Entry entry, Instant due) {
    entry.state = due.isAfter(now()) ? "delayed" : "ready";
    entry.due = due;
    notifyAll();
  }

  synchronized ObjectNode get(String... name) {
    return shown(find(name));
  }

  synchronized ObjectNode update(ObjectNode change, String... name) {
    Entry entry = find(name);
    requireConsistent(change, "");
    requireNotLeased(entry);
    Optional<Instant> due = due(change);
    if (due.isPresent() && entry.is("dead")) {
      throw new Refusal(409, "message_dead", null);
    }
    if (change.has("payload") || change.has("payload_base64")) {
      entry.content.remove(List.of("payload", "payload_base64", "content_type"));
    }
    for (String field : List.of("payload", "payload_base64", "content_type", "priority", "headers")) {
      if (change.has(field)) {
        entry.content.set(field, change.get(field));
      }
    }
    due.ifPresent(at -> delay(entry, at));
    return shown(entry);
  }

  /** Null: there is no content. */
  synchronized ObjectNode delete(boolean force, String... name) {
    Entry entry = find(name);
    if (!force) {
      requireNotLeased(entry);
    }
    entries.remove(entry);
    return null;
  }

  synchronized ObjectNode redrive(String id) {
    return redrive(id, 0);
  }

  private ObjectNode redrive(String id, long afterMs) {
    Entry entry = find(id);
    if (!entry.is("dead")) {
      throw new Refusal(409, "message_not_dead", null);
    }
    if (live(entry.content.get("topic").asText(), entry.content.path("key").asText(null)) != null) {
      throw new Refusal(409, "duplicate_key", null);
    }
    entry.attemptsLeft = entry.maxAttempts;
    entry.failures = 0;
    delay(entry, now().plusMillis(afterMs));
    return shown(entry);
  }

  synchronized ObjectNode redriveTopic(String topic, JsonNode request) {
    requireTopic(topic);
    requireWithin(request, "", "max_messages", 1, 1_000_000);
    requireWithin(request, "", "spread_ms", 0, TEN_YEARS_MS);
    List<Entry> dead = list(topic, "dead");
    long most = Math.min(request.path("max_messages").asLong(10_000), dead.size());
    int redriven = 0;
    for (Entry entry : dead) {
      if (redriven < most && live(topic, entry.content.path("key").asText(null)) == null) {
        redrive(entry.content.get("id").asText(), request.path("spread_ms").asLong() * redriven / most);
        redriven++;
      }
    }
    return NODES.objectNode().put("redriven", redriven).put("remaining", list(topic, "dead").size());
  }

  /** The messages of a topic in the order of their state, without payloads unless asked for. */
  synchronized ArrayNode messages(String topic, String state, boolean withPayloads) {
    requireTopic(topic);
    ArrayNode items = NODES.arrayNode();
    for (Entry entry : list(topic, state)) {
      ObjectNode item = shown(entry);
      items.add(withPayloads ? item : item.remove(List.of("payload", "payload_base64")));
    }
    return items;
  }

  /** The messages of a topic in the order of publishing. */
  synchronized List<ObjectNode> messages(String topic) {
    tick();
    return in(topic).stream().map(this::shown).toList();
  }

  synchronized ArrayNode topics(String prefix) {
    ArrayNode items = NODES.arrayNode();
    for (String topic : topics) {
      if (topic.startsWith(prefix)) {
        ObjectNode counts = items.addObject().put("name", topic).put("paused", false).putObject("counts").put("blocked", 0).put("acked", 0);
        List.of("delayed", "ready", "leased", "dead").forEach(state -> counts.put(state, list(topic, state).size()));
      }
    }
    return items;
  }

  private void requireTopic(String topic) {
    if (!topics.contains(topic)) {
      throw new Refusal(404, "topic_not_found", null);
    }
  }

  private static void requireNotLeased(Entry entry) {
    if ("leased".equals(entry.state)) {
      throw new Refusal(409, "message_leased", null);
    }
  }

  private List<Entry> in(String topic) {
    return entries.stream().filter(entry -> entry.content.get("topic").asText().equals(topic)).toList();
  }

  private List<Entry> list(String topic, String state) {
    tick();
    Comparator<Entry> order =
        switch (state) {
          case "ready" -> Comparator.<Entry>comparingInt(entry -> -entry.content.get("priority").asInt()).thenComparing(entry -> entry.due);
          case "leased" -> Comparator.comparing(entry -> entry.leasedUntil);
          case "dead" -> Comparator.comparing(entry -> entry.died);
          default -> Comparator.comparing(entry -> entry.due);
        };
    return in(topic).stream().filter(entry -> entry.is(state)).sorted(order).toList();
  }

  private Optional<Entry> byId(String id) {
    return entries.stream().filter(entry -> entry.content.get("id").asText().equals(id)).findFirst();
  }

  /** By its id, or by its topic and key. */
  private Entry find(String... name) {
    tick();
    Optional<Entry> found = name.length == 1 ? byId(name[0]) : Optional.ofNullable(live(name[0], name[1]));
    return found.orElseThrow(() -> new Refusal(404, "message_not_found", null));
  }

  /** The live message that holds a key; null: there is none. */
  private Entry live(String topic, String key) {
    return in(topic).stream()
        .filter(entry -> key != null && key.equals(entry.content.path("key").asText(null)) && !entry.is("dead"))
        .filter(entry -> entry.attempts == 0 || !entry.freesKeyWhenGranted)
        .findFirst()
        .orElse(null);
  }

  /** A message as dueq shows it. */
  private ObjectNode shown(Entry entry) {
    ObjectNode shown = entry.content.deepCopy().put("state", entry.state);
    shown.put("attempts", entry.attempts).put("attempts_left", entry.attemptsLeft);
    switch (entry.state) {
      case "leased" -> shown.put("lease_expires_at", INSTANT.format(entry.leasedUntil));
      case "dead" -> shown.put("died_at", INSTANT.format(entry.died));
      default -> shown.put("due_at", INSTANT.format(entry.due));
    }
    return shown;
  }

  private Optional<Instant> due(JsonNode request) {
    if (request.has("deliver_at")) {
      return Optional.of(OffsetDateTime.parse(request.get("deliver_at").asText()).toInstant());
    }
    return request.has("delay_ms") ? Optional.of(now().plusMillis(request.get("delay_ms").asLong())) : Optional.empty();
  }

  private Instant now() {
    return Instant.now().plus(ahead).truncatedTo(ChronoUnit.MILLIS);
  }

  /** Does what time does. */
  private Instant tick() {
    Instant now = now();
    for (Entry entry : entries) {
      if (entry.is("leased") && !entry.leasedUntil.isAfter(now)) {
        comeBack(entry, entry.leasedUntil);
      } else if (entry.is("delayed") && !entry.due.isAfter(now)) {
        entry.state = "ready";
      }
    }
    return now;
  }

  /** Milliseconds until time has something to do. */
  private long untilNext(Instant now) {
    return entries.stream()
        .filter(entry -> entry.is("leased") || entry.is("delayed"))
        .mapToLong(entry -> now.until(entry.is("leased") ? entry.leasedUntil : entry.due, ChronoUnit.MILLIS))
        .map(ms -> Math.max(1, ms))
        .min()
        .orElse(Long.MAX_VALUE);
  }
}

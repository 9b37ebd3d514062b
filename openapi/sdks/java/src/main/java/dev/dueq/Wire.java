package dev.dueq;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.dueq.invoker.ApiClient;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpRequest;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/**
 * The worker's four requests, written and read by hand: at tens of thousands of messages a second, the generated code's reflection
 * and its decoding of every payload would be most of the work.
 */
final class Wire {
  /** The server's answer to one ack, nack or extension. */
  record Outcome(String id, String status, long leaseMs) {}

  /** What a lease request brought. */
  record Leased(List<Held> messages, List<Outcome> acks) {}

  /** Reads whatever the server accepted; how much of a payload can be decoded is for {@link Delivery}. */
  private static final JsonFactory JSON =
      JsonFactory.builder()
          .streamReadConstraints(
              StreamReadConstraints.builder()
                  .maxNumberLength(Integer.MAX_VALUE)
                  .maxStringLength(Integer.MAX_VALUE)
                  .maxNestingDepth(Integer.MAX_VALUE)
                  .build())
          .build();

  /** The server takes no shorter lease. */
  private static final long SHORTEST_LEASE_MS = 1000;

  private final Client client;
  private final ObjectMapper mapper;
  private final List<String> topics;
  private final Long leaseMs;
  private final long waitMs;
  private final HttpRequest.Builder lease;
  private final HttpRequest.Builder ack;
  private final HttpRequest.Builder nack;
  private final HttpRequest.Builder extend;

  Wire(Client client, List<String> topics, Long leaseMs, long waitMs) {
    this.client = client;
    this.mapper = client.mapper();
    this.topics = topics;
    this.leaseMs = leaseMs;
    this.waitMs = waitMs;
    lease = to(topics.size() > 1 ? "/lease" : "/topics/" + ApiClient.urlEncode(topics.get(0)) + "/lease");
    ack = to("/messages/ack");
    nack = to("/messages/nack");
    extend = to("/messages/extend");
  }

  private HttpRequest.Builder to(String path) {
    URI uri = URI.create(client.url() + path);
    Transport.requirePlain(uri);
    HttpRequest.Builder request =
        HttpRequest.newBuilder(uri)
            .header("Content-Type", "application/json")
            .header("Accept", "application/json, application/problem+json");
    client.authorize(request);
    return request;
  }

  HttpRequest lease(int max, List<Held> acks) {
    return request(
        lease,
        json -> {
          if (topics.size() > 1) {
            json.writeArrayFieldStart("topics");
            for (String topic : topics) {
              json.writeString(topic);
            }
            json.writeEndArray();
          }
          json.writeNumberField("max_messages", max);
          json.writeNumberField("wait_ms", waitMs);
          if (leaseMs != null) {
            json.writeNumberField("lease_ms", leaseMs);
          }
          if (!acks.isEmpty()) {
            items(json, "acks", acks, held -> {});
          }
        });
  }

  HttpRequest ack(List<Held> messages) {
    return request(ack, json -> items(json, "messages", messages, held -> {}));
  }

  HttpRequest extend(List<Held> messages) {
    return request(extend, json -> items(json, "messages", messages, held -> json.writeNumberField("lease_ms", held.leaseMs)));
  }

  HttpRequest nack(List<Held> messages) {
    return request(
        nack,
        json ->
            items(
                json,
                "messages",
                messages,
                held -> {
                  if (held.release) {
                    json.writeBooleanField("release", true);
                  }
                  if (held.dead) {
                    json.writeBooleanField("dead", true);
                  }
                  if (held.delayMs != null) {
                    json.writeNumberField("delay_ms", held.delayMs);
                  }
                  if (held.reason != null) {
                    json.writeStringField("reason", held.reason);
                  }
                }));
  }

  /** What came, each lease counted from `now`. */
  Leased leased(byte[] body, long now) throws IOException {
    List<Held> messages = new ArrayList<>();
    List<Outcome> acks = List.of();
    try (JsonParser json = open(body)) {
      while (json.nextToken() != JsonToken.END_OBJECT) {
        String name = json.currentName();
        json.nextToken();
        if (name.equals("messages")) {
          expect(json, JsonToken.START_ARRAY);
          while (json.nextToken() != JsonToken.END_ARRAY) {
            messages.add(message(json, body, now));
          }
        } else if (name.equals("acks")) {
          acks = outcomes(json);
        } else {
          json.skipChildren();
        }
      }
    }
    return new Leased(messages, acks);
  }

  /** The results of a batch, in its order. */
  List<Outcome> results(byte[] body) throws IOException {
    List<Outcome> results = List.of();
    try (JsonParser json = open(body)) {
      while (json.nextToken() != JsonToken.END_OBJECT) {
        String name = json.currentName();
        json.nextToken();
        if (name.equals("results")) {
          results = outcomes(json);
        } else {
          json.skipChildren();
        }
      }
    }
    return results;
  }

  private Held message(JsonParser json, byte[] body, long now) throws IOException {
    expect(json, JsonToken.START_OBJECT);
    Delivery message = new Delivery(mapper);
    String id = "";
    while (json.nextToken() != JsonToken.END_OBJECT) {
      String name = json.currentName();
      JsonToken token = json.nextToken();
      switch (name) {
        case "id" -> id = json.getText();
        case "topic" -> message.setTopic(json.getText());
        case "payload" -> {
          int from = (int) json.currentTokenLocation().getByteOffset();
          json.skipChildren();
          json.finishToken();
          message.json(Arrays.copyOfRange(body, from, (int) json.currentLocation().getByteOffset()));
        }
        case "payload_base64" -> message.setPayloadBase64(json.getText());
        case "content_type" -> message.setContentType(json.getText());
        case "headers" -> message.setHeaders(headers(json));
        case "key" -> message.setKey(json.getText());
        case "priority" -> message.setPriority(json.getLongValue());
        case "attempt" -> message.setAttempt(json.getLongValue());
        case "attempts_left" -> message.setAttemptsLeft(json.getLongValue());
        case "published_at" -> message.setPublishedAt(instant(json.getText()));
        case "due_at" -> message.setDueAt(instant(json.getText()));
        case "lease_token" -> message.setLeaseToken(json.getText());
        case "lease_ms" -> message.setLeaseMs(json.getLongValue());
        case "lease_expires_at" -> message.setLeaseExpiresAt(instant(json.getText()));
        default -> {
          if (token.isStructStart()) {
            json.skipChildren();
          }
        }
      }
    }
    if (id.isEmpty() || message.getLeaseToken() == null || message.getLeaseMs() == null) {
      throw new IOException("a leased message without id, lease_token or lease_ms");
    }
    message.setId(UUID.fromString(id));
    long left = message.getLeaseMs();
    return new Held(message, id, message.getLeaseToken(), now, left, Math.max(SHORTEST_LEASE_MS, leaseMs != null ? leaseMs : left));
  }

  private static List<Outcome> outcomes(JsonParser json) throws IOException {
    expect(json, JsonToken.START_ARRAY);
    List<Outcome> outcomes = new ArrayList<>();
    while (json.nextToken() != JsonToken.END_ARRAY) {
      expect(json, JsonToken.START_OBJECT);
      String id = "";
      String status = "";
      long leaseMs = 0;
      while (json.nextToken() != JsonToken.END_OBJECT) {
        String name = json.currentName();
        json.nextToken();
        switch (name) {
          case "id" -> id = json.getText();
          case "status" -> status = json.getText();
          case "lease_ms" -> leaseMs = json.getLongValue();
          default -> json.skipChildren();
        }
      }
      outcomes.add(new Outcome(id, status, leaseMs));
    }
    return outcomes;
  }

  private static Map<String, String> headers(JsonParser json) throws IOException {
    expect(json, JsonToken.START_OBJECT);
    Map<String, String> headers = new HashMap<>();
    while (json.nextToken() != JsonToken.END_OBJECT) {
      String name = json.currentName();
      json.nextToken();
      headers.put(name, json.getText());
    }
    return headers;
  }

  /** `2026-11-20T18:15:00.123Z`, which is how dueq writes them all, without a formatter. */
  private static OffsetDateTime instant(String text) {
    if (text.length() != 24 || text.charAt(19) != '.' || text.charAt(23) != 'Z') {
      return OffsetDateTime.parse(text);
    }
    return OffsetDateTime.of(
        digits(text, 0, 4),
        digits(text, 5, 7),
        digits(text, 8, 10),
        digits(text, 11, 13),
        digits(text, 14, 16),
        digits(text, 17, 19),
        digits(text, 20, 23) * 1_000_000,
        ZoneOffset.UTC);
  }

  private static int digits(String text, int from, int to) {
    return Integer.parseInt(text, from, to, 10);
  }

  private static JsonParser open(byte[] body) throws IOException {
    JsonParser json = JSON.createParser(body);
    json.nextToken();
    expect(json, JsonToken.START_OBJECT);
    return json;
  }

  private static void expect(JsonParser json, JsonToken token) throws IOException {
    if (json.currentToken() != token) {
      throw new IOException("an answer that is not dueq's: " + json.currentToken() + " where " + token + " was expected");
    }
  }

  private interface Fields {
    void write(JsonGenerator json) throws IOException;
  }

  private interface ItemFields {
    void write(Held held) throws IOException;
  }

  private static void items(JsonGenerator json, String name, List<Held> items, ItemFields more) throws IOException {
    json.writeArrayFieldStart(name);
    for (Held held : items) {
      json.writeStartObject();
      json.writeStringField("id", held.id);
      json.writeStringField("lease_token", held.token);
      more.write(held);
      json.writeEndObject();
    }
    json.writeEndArray();
  }

  private static HttpRequest request(HttpRequest.Builder route, Fields fields) {
    ByteArrayOutputStream body = new ByteArrayOutputStream(256);
    try (JsonGenerator json = JSON.createGenerator(body)) {
      json.writeStartObject();
      fields.write(json);
      json.writeEndObject();
    } catch (IOException cannotBe) {
      throw new UncheckedIOException(cannotBe);
    }
    return route.copy().POST(HttpRequest.BodyPublishers.ofByteArray(body.toByteArray())).build();
  }
}

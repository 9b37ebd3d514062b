package dev.dueq.testing;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.cfg.JsonNodeFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.dueq.Client;
import dev.dueq.model.Message;
import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BooleanSupplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A dueq in memory, for the tests of programs that use it: no server, no Redis, and a clock that the test moves.
 *
 * <pre>{@code
 * try (TestServer server = new TestServer(); Client client = server.client()) {
 *   client.publish("orders", order, with -> with.delay(Duration.ofMinutes(30)).key("order/42"));
 *   server.advance(Duration.ofMinutes(30));
 *   // A worker of this client handles it now.
 * }
 * }</pre>
 *
 * <p>It publishes, leases, settles, finds, changes, deletes, lists and redrives messages as dueq does. It makes no callbacks: they
 * are messages in the topic {@code _callbacks}. Topics have no configuration (a lease lasts 30 s, a message has 10 attempts, the
 * backoff is 1 s doubled each time), a message's own backoff and time to live are ignored, and there are no schedules. Requests for
 * anything else are refused with the code {@code not_supported}.
 */
public final class TestServer implements AutoCloseable {
  /** A request as it came; `clientIsGone` looks whether its client closed the connection. */
  private record Request(Matcher path, Map<String, String> query, String idempotencyKey, ObjectNode body, BooleanSupplier clientIsGone) {
    /** A parameter of the path. */
    String path(String name) {
      return decoded(path.group(name));
    }

    boolean has(String flag) {
      return query.getOrDefault(flag, "").equals("true");
    }
  }

  private interface Operation {
    JsonNode answer(Request request) throws InterruptedException;
  }

  private record Route(String method, Pattern path, Operation operation) {}

  private static final ObjectMapper JSON =
      JsonMapper.builder()
          .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
          .disable(JsonNodeFeature.STRIP_TRAILING_BIGDECIMAL_ZEROES)
          .build();

  private static final int PAGE = 100;

  private final Queue queue = new Queue();
  private final List<Route> routes = new ArrayList<>();
  private final Set<SocketChannel> connections = ConcurrentHashMap.newKeySet();
  private final ServerSocketChannel listener;

  /** Starts a server on a free port of this machine. */
  public TestServer() {
    String message = "/messages/{id}";
    String key = "/topics/{topic}/keys/{key}";
    route("POST", "/topics/{topic}/messages", r -> queue.publish(r.path("topic"), r.body, r.idempotencyKey));
    route("POST", "/topics/{topic}/messages/batch", r -> queue.publishBatch(r.path("topic"), r.body.path("messages")));
    route("POST", "/callbacks", r -> queue.callback(r.body, r.idempotencyKey));
    route("POST", "/topics/{topic}/lease", r -> queue.lease(List.of(r.path("topic")), r.body, r.clientIsGone));
    route("POST", "/lease", r -> queue.lease(strings(r.body.path("topics")), r.body, r.clientIsGone));
    route("POST", "/messages/(?<verb>ack|nack|extend)", r -> queue.settleBatch(r.path("verb"), r.body.path("messages")));
    route("POST", message + "/(?<verb>ack|nack|extend)", r -> queue.settleOne(r.path("verb"), r.path("id"), r.body));
    route("POST", message + "/redrive", r -> queue.redrive(r.path("id")));
    route("GET", message, r -> queue.get(r.path("id")));
    route("GET", key, r -> queue.get(r.path("topic"), r.path("key")));
    route("PATCH", message, r -> queue.update(r.body, r.path("id")));
    route("PATCH", key, r -> queue.update(r.body, r.path("topic"), r.path("key")));
    route("DELETE", message, r -> queue.delete(r.has("force"), r.path("id")));
    route("DELETE", key, r -> queue.delete(r.has("force"), r.path("topic"), r.path("key")));
    route("GET", "/topics/{topic}/messages", TestServer.this::list);
    route("GET", "/topics", r -> page(r, queue.topics(r.query.getOrDefault("prefix", ""))));
    route("POST", "/topics/{topic}/redrive", r -> queue.redriveTopic(r.path("topic"), r.body));
    try {
      listener = ServerSocketChannel.open().bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
    start(this::listen);
  }

  /** The server's URL. */
  public String url() {
    return "http://127.0.0.1:" + listener.socket().getLocalPort();
  }

  /** A new client of the server. */
  public Client client() {
    return new Client(url());
  }

  /** Moves the server's clock: what falls due in this time is due, and leases that end in it are over. */
  public void advance(Duration by) {
    if (by.isNegative()) {
      throw new IllegalArgumentException("time does not go back: " + by);
    }
    queue.advance(by);
  }

  /** The messages of a topic in any state but acknowledged, in the order in which they were published. */
  public List<Message> messages(String topic) {
    try (Client client = client()) {
      return queue.messages(topic).stream().map(message -> client.mapper().convertValue(message, Message.class)).toList();
    }
  }

  /** Ends the server and its connections. */
  @Override
  public void close() {
    queue.close();
    try {
      listener.close();
      for (SocketChannel connection : connections) {
        connection.close();
      }
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  private void route(String method, String path, Operation operation) {
    routes.add(new Route(method, Pattern.compile(path.replaceAll("\\{(\\w+)}", "(?<$1>[^/]+)")), operation));
  }

  private JsonNode list(Request request) {
    String state = request.query.getOrDefault("state", "");
    if (!List.of("delayed", "ready", "leased", "dead", "acked").contains(state)) {
      throw new Queue.Refusal(422, "invalid_input", "state");
    }
    return page(request, queue.messages(request.path("topic"), state, request.has("payload")));
  }

  /** A cursor is the number of items before it. */
  private static ObjectNode page(Request request, ArrayNode items) {
    int from = Integer.parseInt(request.query.getOrDefault("cursor", "0"));
    int to = from + Integer.parseInt(request.query.getOrDefault("limit", String.valueOf(PAGE)));
    ObjectNode page = JSON.createObjectNode();
    ArrayNode shown = page.putArray("items");
    for (int i = from; i < Math.min(to, items.size()); i++) {
      shown.add(items.get(i));
    }
    return to < items.size() ? page.put("next_cursor", String.valueOf(to)) : page;
  }

  private static List<String> strings(JsonNode array) {
    return JSON.convertValue(array, new TypeReference<>() {});
  }

  private void listen() {
    try {
      while (true) {
        SocketChannel connection = listener.accept();
        connections.add(connection);
        start(() -> serve(connection));
      }
    } catch (IOException closed) {
      // The test is over.
    }
  }

  private void serve(SocketChannel connection) {
    try (connection) {
      InputStream in = new BufferedInputStream(Channels.newInputStream(connection));
      for (String head = head(in); !head.isEmpty(); head = head(in)) {
        connection.write(ByteBuffer.wrap(answer(head, in, () -> isClosed(connection))));
      }
    } catch (IOException | InterruptedException gone) {
      // Nobody waits for an answer.
    } finally {
      connections.remove(connection);
    }
  }

  /** Whether there is an end, and not just nothing, to be read. */
  private static boolean isClosed(SocketChannel connection) {
    try {
      connection.configureBlocking(false);
      boolean closed = connection.read(ByteBuffer.allocate(1)) < 0;
      connection.configureBlocking(true);
      return closed;
    } catch (IOException broken) {
      return true;
    }
  }

  /** Request line and headers; empty at the connection's end. */
  private static String head(InputStream in) throws IOException {
    StringBuilder head = new StringBuilder();
    while (head.indexOf("\r\n\r\n", head.length() - 4) < 0) {
      int next = in.read();
      if (next < 0) {
        return "";
      }
      head.append((char) next);
    }
    return head.toString();
  }

  private byte[] answer(String head, InputStream in, BooleanSupplier clientIsGone) throws IOException, InterruptedException {
    String[] lines = head.split("\r\n");
    Map<String, String> headers = new HashMap<>();
    for (int i = 1; i < lines.length; i++) {
      String[] header = lines[i].split(":\\s*", 2);
      headers.put(header[0].toLowerCase(Locale.ROOT), header[1]);
    }
    byte[] body = in.readNBytes(Integer.parseInt(headers.getOrDefault("content-length", "0")));
    try {
      String[] line = lines[0].split(" ");
      JsonNode answer = answer(line[0], line[1], headers.get("idempotency-key"), body, clientIsGone);
      // Only a publish says so: a new message, and not one that was there.
      boolean created = !answer.path("duplicate").asBoolean(true);
      return answer(answer.isMissingNode() ? 204 : created ? 201 : 200, "application/json", answer);
    } catch (Queue.Refusal refusal) {
      ObjectNode problem = JSON.createObjectNode().put("type", "about:blank").put("title", refusal.code).put("status", refusal.status);
      problem.put("code", refusal.code).put("detail", refusal.code.replace('_', ' ')).put("request_id", "test");
      if (refusal.field != null) {
        problem.putArray("errors").addObject().put("field", refusal.field).put("reason", "is not valid");
      }
      return answer(refusal.status, "application/problem+json", problem);
    }
  }

  private static byte[] answer(int status, String type, JsonNode body) throws IOException {
    byte[] content = body.isMissingNode() ? new byte[0] : JSON.writeValueAsBytes(body);
    String head = "HTTP/1.1 " + status + " \r\nContent-Type: " + type + "\r\nContent-Length: " + content.length + "\r\n\r\n";
    return (head + new String(content, StandardCharsets.UTF_8)).getBytes(StandardCharsets.UTF_8);
  }

  private JsonNode answer(String method, String target, String idempotencyKey, byte[] body, BooleanSupplier clientIsGone)
      throws IOException, InterruptedException {
    String[] parts = target.split("\\?", 2);
    for (Route route : routes) {
      Matcher path = route.path.matcher(parts[0]);
      if (route.method.equals(method) && path.matches()) {
        Map<String, String> query = parts.length == 1 ? Map.of() : query(parts[1]);
        JsonNode answer = route.operation.answer(new Request(path, query, idempotencyKey, object(body), clientIsGone));
        return answer == null ? JSON.missingNode() : answer;
      }
    }
    throw new Queue.Refusal(501, "not_supported", null);
  }

  private static Map<String, String> query(String query) {
    Map<String, String> parameters = new HashMap<>();
    for (String pair : query.split("&")) {
      String[] parameter = pair.split("=", 2);
      parameters.put(parameter[0], decoded(parameter[1]));
    }
    return parameters;
  }

  private static String decoded(String text) {
    return URLDecoder.decode(text.replace("+", "%2B"), StandardCharsets.UTF_8);
  }

  /** A field that is null counts as absent, the payload excepted, and so does a body that was left out. */
  private static ObjectNode object(byte[] body) throws IOException {
    try {
      JsonNode given = JSON.readTree(body);
      ObjectNode object = given instanceof ObjectNode fields ? fields : JSON.createObjectNode();
      object.properties().removeIf(field -> field.getValue().isNull() && !field.getKey().equals("payload"));
      return object;
    } catch (JsonProcessingException malformed) {
      throw new Queue.Refusal(400, "malformed_json", null);
    }
  }

  private static void start(Runnable task) {
    Thread thread = new Thread(task, "dueq-test-server");
    thread.setDaemon(true);
    thread.start();
  }
}

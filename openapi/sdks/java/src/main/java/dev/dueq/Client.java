package dev.dueq;

import com.fasterxml.jackson.databind.ObjectMapper;
import dev.dueq.Pages.Page;
import dev.dueq.api.CallbacksApi;
import dev.dueq.api.LeasesApi;
import dev.dueq.api.MessagesApi;
import dev.dueq.api.SchedulesApi;
import dev.dueq.api.ServiceApi;
import dev.dueq.api.TopicsApi;
import dev.dueq.invoker.ApiClient;
import dev.dueq.invoker.ApiException;
import dev.dueq.invoker.ApiResponse;
import dev.dueq.model.LeaseFromTopicsRequest;
import dev.dueq.model.LeaseRequest;
import dev.dueq.model.LeaseResponse;
import dev.dueq.model.ListedState;
import dev.dueq.model.Message;
import dev.dueq.model.MessageList;
import dev.dueq.model.PublishBatchRequest;
import dev.dueq.model.PublishBatchResponse;
import dev.dueq.model.PublishRequest;
import dev.dueq.model.PublishResult;
import dev.dueq.model.PublishedMessage;
import dev.dueq.model.RedriveRequest;
import dev.dueq.model.ScheduleCallbackRequest;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import java.util.stream.IntStream;

/**
 * A dueq server: what programs do every day as methods, and every route of the server in {@link #messages()}, {@link #topics()} and
 * so on. Thread-safe; make one and keep it.
 *
 * <pre>{@code
 * Client client = new Client("https://dueq.example.com");
 * client.publish("orders", order, with -> with.delay(Duration.ofMinutes(30)).key("order/42"));
 * client.key("orders", "order/42").cancel();
 * }</pre>
 *
 * <p>A refusal of the server is thrown as a {@link ProblemException}, and a {@link ConnectionException} means that no answer came.
 * Before that, what is safe to repeat is repeated for {@link #DEFAULT_RETRY_FOR} while the server is away or overloaded:
 * publishes, reads, changes and deletions of messages, and acks, nacks and extensions.
 */
public final class Client extends Manage implements AutoCloseable {
  /** Where dueq listens unless told otherwise. */
  public static final String DEFAULT_URL = "http://127.0.0.1:8080";

  /** How long the answer to a request may take unless told otherwise. */
  public static final Duration DEFAULT_TIMEOUT = Duration.ofSeconds(30);

  /** For how long a request is repeated unless told otherwise. */
  public static final Duration DEFAULT_RETRY_FOR = Duration.ofSeconds(30);

  private static final Duration CONNECT_TIMEOUT = Duration.ofSeconds(10);

  private final String url;
  private final String apiKey;
  private final Duration timeout;
  private final Duration retryFor;
  private final HttpClient http;
  private final boolean ownHttp;
  private final AtomicBoolean closed;
  /** Ends each worker that runs. */
  private final Set<Runnable> workers;
  private final ObjectMapper mapper;
  private final MessagesApi messages;
  private final LeasesApi leases;
  private final TopicsApi topics;
  private final CallbacksApi callbacks;
  private final SchedulesApi schedules;
  private final ServiceApi service;
  /** For messages that say what becomes of a repeat. */
  private final MessagesApi publishing;
  private final CallbacksApi calling;

  /** The server that {@code DUEQ_SERVER} names, or {@link #DEFAULT_URL}, with the key {@code DUEQ_API_KEY}, if any. */
  public Client() {
    this(builder());
  }

  /**
   * A server, with the key {@code DUEQ_API_KEY}, if any.
   *
   * @param url for example {@code https://dueq.example.com}; null: as in {@link #Client()}
   */
  public Client(String url) {
    this(builder().url(url));
  }

  /**
   * A server and a key.
   *
   * @param url for example {@code https://dueq.example.com}; null: as in {@link #Client()}
   * @param apiKey sent with every request; null: {@code DUEQ_API_KEY}, or none
   */
  public Client(String url, String apiKey) {
    this(builder().url(url).apiKey(apiKey));
  }

  /** Begins to describe a client with more than a URL and a key. */
  public static Builder builder() {
    return new Builder();
  }

  private Client(Builder options) {
    url = server(options.url != null ? options.url : environment("DUEQ_SERVER", DEFAULT_URL));
    apiKey = key(options.apiKey != null ? options.apiKey : environment("DUEQ_API_KEY", null));
    timeout = options.timeout;
    retryFor = options.retryFor;
    ownHttp = options.http == null || options.ownHttp;
    http = options.http == null ? defaultHttpClient() : options.http;
    mapper = options.mapper != null ? options.mapper : new Json();
    closed = options.closed != null ? options.closed : new AtomicBoolean();
    workers = options.workers != null ? options.workers : ConcurrentHashMap.newKeySet();
    ApiClient api = api(Transport.Repeats.SAFE, timeout);
    ApiClient keyed = api(Transport.Repeats.ALL, timeout);
    messages = new MessagesApi(api);
    leases = new WaitingLeases(api);
    topics = new TopicsApi(api);
    callbacks = new CallbacksApi(api);
    schedules = new SchedulesApi(api);
    service = new ServiceApi(api(Transport.Repeats.NONE, timeout));
    publishing = new MessagesApi(keyed);
    calling = new CallbacksApi(keyed);
  }

  /** This client with another time-out, for a call: {@code client.withTimeout(ofSeconds(2)).publish(…)}. One closes both. */
  public Client withTimeout(Duration timeout) {
    return new Client(copy().timeout(timeout));
  }

  /** This client with another time of repeating, for a call; zero: nothing is repeated. One closes both. */
  public Client withRetryFor(Duration retryFor) {
    return new Client(copy().retryFor(retryFor));
  }

  private Builder copy() {
    Builder copy = builder().url(url).apiKey(apiKey).timeout(timeout).retryFor(retryFor).httpClient(http);
    copy.ownHttp = ownHttp;
    copy.mapper = mapper;
    copy.closed = closed;
    copy.workers = workers;
    return copy;
  }

  /**
   * Publishes a message that is due now.
   *
   * @param payload whatever Jackson writes, null included; a {@code byte[]} is published as bytes. A {@link Publish} or a {@link
   *     PublishRequest} is a message of its own.
   * @throws ProblemException when the server refuses it
   * @throws ConnectionException when no answer comes
   */
  public PublishedMessage publish(String topic, Object payload) {
    return payload instanceof PublishRequest request ? published(topic, request) : publish(topic, payload, with -> {});
  }

  /**
   * Publishes a message with options: {@code client.publish("orders", order, with -> with.delay(ofMinutes(30)).key("order/42"))}.
   *
   * @param payload whatever Jackson writes, null included; a {@code byte[]} is published as bytes
   * @param options when it is due, its key, and so on
   * @throws ProblemException when the server refuses it
   * @throws ConnectionException when no answer comes
   */
  public PublishedMessage publish(String topic, Object payload, Consumer<Publish> options) {
    Publish message = Publish.of(payload);
    options.accept(message);
    return published(topic, message.request());
  }

  /** The request may be the user's, so a random key goes into the header. */
  private PublishedMessage published(String topic, PublishRequest request) {
    PublishedMessage message = publishing.publishMessage(topic, request, repeats(request) ? null : madeUpKey());
    return published(message, "POST /topics/" + ApiClient.urlEncode(topic) + "/messages");
  }

  /**
   * Publishes up to 1000 messages in one request.
   *
   * @param messages payloads, as {@link #publish(String, Object)} takes them: a {@link Publish} is a message with options
   * @return a result for each, in order: its {@code getStatus()} is {@code ok}, and its {@code getMessage()} is there, or a code
   *     such as {@code duplicate_key}
   * @throws ProblemException when the server refuses all of them, because one is not valid
   * @throws ConnectionException when no answer comes
   */
  public List<PublishResult> publishBatch(String topic, List<?> messages) {
    long end = System.nanoTime() + retryFor.toNanos();
    List<PublishRequest> requests = messages.stream().map(this::request).toList();
    if (!retryFor.isZero()) {
      requests.stream()
          .filter(request -> !repeats(request))
          .forEach(request -> request.setIdempotencyKey(madeUpKey()));
    }
    List<PublishResult> results = publishBatch(publishing, topic, requests);
    boolean settled = retryFor.isZero() || unsettled(requests, results).isEmpty();
    return settled ? results : settled(topic, requests, new ArrayList<>(results), end);
  }

  private List<PublishResult> publishBatch(MessagesApi by, String topic, List<PublishRequest> requests) {
    PublishBatchResponse answer = by.publishBatch(topic, new PublishBatchRequest().messages(requests));
    if (answer == null || answer.getResults() == null || answer.getResults().size() != requests.size()) {
      String operation = "POST /topics/" + ApiClient.urlEncode(topic) + "/messages/batch";
      throw ConnectionException.unreadable(url, operation, new IOException("not one result for each message in the answer"));
    }
    return answer.getResults();
  }

  /** Of its own, since it is given a key. */
  private PublishRequest request(Object message) {
    return message instanceof PublishRequest ? mapper.convertValue(message, PublishRequest.class) : Publish.of(message).request();
  }

  /** Repeats what may succeed later; whatever comes of that, what has succeeded is told. */
  private List<PublishResult> settled(String topic, List<PublishRequest> requests, List<PublishResult> results, long end) {
    ApiException failure = null;
    try {
      for (int failures = 1; Backoff.sleep(failures, failure, end); failures++) {
        List<Integer> open = unsettled(requests, results);
        if (open.isEmpty()) {
          break;
        }
        try {
          var once = new MessagesApi(api(Transport.Repeats.NONE, Transport.within(timeout, end)));
          List<PublishResult> repeated = publishBatch(once, topic, open.stream().map(requests::get).toList());
          IntStream.range(0, open.size()).forEach(i -> results.set(open.get(i), repeated.get(i)));
          failure = null;
        } catch (ApiException error) {
          failure = error;
          if (!Transport.passes(error)) {
            break;
          }
        }
      }
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    }
    return results;
  }

  private static List<Integer> unsettled(List<PublishRequest> requests, List<PublishResult> results) {
    return IntStream.range(0, results.size())
        .filter(i -> List.of("redis_unavailable", "outcome_unknown").contains(results.get(i).getStatus()))
        .filter(i -> repeats(requests.get(i)))
        .boxed()
        .toList();
  }

  /**
   * Has dueq call a URL now, with an empty body.
   *
   * @throws ProblemException when the server refuses it
   * @throws ConnectionException when no answer comes
   */
  public PublishedMessage callback(String url) {
    return called(new CallbackOptions().request(url));
  }

  /** Has dueq call a URL now with this body; see {@link #callback(String, Object, Consumer)}. */
  public PublishedMessage callback(String url, Object payload) {
    return callback(url, payload, with -> {});
  }

  /**
   * Has dueq call a URL, now or later, and again after a failure. {@link Webhooks#verify} checks that a call comes from dueq.
   *
   * @param payload the body: whatever Jackson writes, or bytes as a {@code byte[]}
   * @param options when it is called, how, and so on
   * @return the message of the call: its id is good for {@code messages().getMessage(id)} and {@code messages().deleteMessage(id)}
   * @throws ProblemException when the server refuses it
   * @throws ConnectionException when no answer comes
   */
  public PublishedMessage callback(String url, Object payload, Consumer<CallbackOptions> options) {
    CallbackOptions with = new CallbackOptions();
    options.accept(with);
    ScheduleCallbackRequest request = with.request(url);
    MessageOptions.payload(payload, request::setPayload, request::setPayloadBase64);
    return called(request);
  }

  private PublishedMessage called(ScheduleCallbackRequest request) {
    boolean repeats =
        repeats(request.getIdempotencyKey(), request.getDebounce(), request.getThrottle(), request.getOnce());
    return published(calling.scheduleCallback(request, repeats ? null : madeUpKey()), "POST /callbacks");
  }

  /** What something else answers may be JSON without being a message. */
  private PublishedMessage published(PublishedMessage message, String operation) {
    if (message == null || message.getId() == null) {
      throw ConnectionException.unreadable(url, operation, new IOException("no published message in the answer"));
    }
    return message;
  }

  /** The message of a topic that has this key: {@code client.key("orders", "order/42").cancel()}. */
  public MessageKey key(String topic, String key) {
    return new MessageKey(messages, topic, key);
  }

  /** The dead messages of a topic with their payloads, longest dead first. */
  public Pages<Message> dead(String topic) {
    return new Pages<>(
        cursor -> {
          MessageList list = messages.listMessages(topic, ListedState.DEAD, true, null, cursor, null);
          return new Page<>(list.getItems(), list.getNextCursor());
        });
  }

  /**
   * Makes dead messages of a topic ready again, with as many attempts as new ones: those longest dead first, 10,000 at most.
   *
   * @return how many
   */
  public long redrive(String topic) {
    return topics.redriveTopic(topic, null).getRedriven();
  }

  /**
   * Makes up to so many dead messages of a topic ready again, with as many attempts as new ones: those longest dead first.
   *
   * @return how many
   */
  public long redrive(String topic, long max) {
    return topics.redriveTopic(topic, new RedriveRequest().maxMessages(max)).getRedriven();
  }

  /**
   * The same, with their due times spread over so long.
   *
   * @return how many
   */
  public long redrive(String topic, long max, Duration spread) {
    RedriveRequest request = new RedriveRequest().maxMessages(max).spreadMs(MessageOptions.milliseconds("spread", spread));
    return topics.redriveTopic(topic, request).getRedriven();
  }

  /** Makes a dead message ready again, with as many attempts as a new one. */
  public Message redriveMessage(UUID id) {
    return messages.redriveMessage(id);
  }

  /** The same as {@link #redriveMessage}. */
  public Message redrive(UUID id) {
    return redriveMessage(id);
  }

  @Override
  public MessagesApi messages() {
    return messages;
  }

  @Override
  public LeasesApi leases() {
    return leases;
  }

  @Override
  public TopicsApi topics() {
    return topics;
  }

  @Override
  public CallbacksApi callbacks() {
    return callbacks;
  }

  @Override
  public SchedulesApi schedules() {
    return schedules;
  }

  @Override
  public ServiceApi service() {
    return service;
  }

  /** The server's URL, without a slash at its end. */
  public String url() {
    return url;
  }

  /** Reads and writes payloads: integers of any size, other numbers as {@link java.math.BigDecimal}. */
  public ObjectMapper mapper() {
    return mapper;
  }

  /**
   * Closes the connections. A request after that is an {@link IllegalStateException}, and with one ends each worker of this client
   * that still runs: stop them first.
   */
  @Override
  public void close() {
    if (closed.getAndSet(true)) {
      return;
    }
    workers.forEach(Runnable::run);
    if (ownHttp) {
      try {
        // JDK 21 and later, which this code, compiled for 17, cannot name. Before that, idle connections close by themselves.
        HttpClient.class.getMethod("shutdownNow").invoke(http);
      } catch (ReflectiveOperationException older) {
        // Nothing to be done.
      }
    }
  }

  /** HTTP/1.1, because the attempt to go up to HTTP/2 costs and dueq does not answer it. */
  public static HttpClient defaultHttpClient() {
    return HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(CONNECT_TIMEOUT).build();
  }

  HttpClient http() {
    return http;
  }

  Duration timeout() {
    return timeout;
  }

  Duration retryFor() {
    return retryFor;
  }

  void requireOpen() {
    if (closed.get()) {
      throw wasClosed();
    }
  }

  IllegalStateException wasClosed() {
    return new IllegalStateException("the client of " + url + " was closed");
  }

  Set<Runnable> workers() {
    return workers;
  }

  void authorize(HttpRequest.Builder request) {
    if (apiKey != null) {
      request.header("Authorization", "Bearer " + apiKey);
    }
  }

  private static boolean repeats(PublishRequest request) {
    return repeats(request.getIdempotencyKey(), request.getDebounce(), request.getThrottle(), request.getOnce());
  }

  /** Whether a publish says what becomes of a repeat. */
  private static boolean repeats(Object... said) {
    return Arrays.stream(said).anyMatch(Objects::nonNull);
  }

  private String madeUpKey() {
    return retryFor.isZero() ? null : UUID.randomUUID().toString();
  }

  private ApiClient api(Transport.Repeats repeats, Duration timeout) {
    ApiClient api = new SharedApiClient(url, new Transport(this, repeats), mapper);
    api.setReadTimeout(timeout);
    api.setRequestInterceptor(this::authorize);
    return api;
  }

  private static String server(String url) {
    String server = url.replaceAll("/+$", "");
    if (!server.matches("(?i)https?://[^/].*")) {
      throw new IllegalArgumentException("the URL of a server begins with http:// or https://, not as " + url);
    }
    return URI.create(server).toString();
  }

  /** An error that quotes a key would put it into logs. */
  private static String key(String key) {
    if (key != null && !key.matches("[!-~]*")) {
      throw new IllegalArgumentException("the API key has a space, a line end or another character that is not visible ASCII");
    }
    return key;
  }

  private static String environment(String name, String otherwise) {
    String value = System.getenv(name);
    return value == null || value.isEmpty() ? otherwise : value;
  }

  /** What a client is to be. */
  public static final class Builder {
    private String url;
    private String apiKey;
    private Duration timeout = DEFAULT_TIMEOUT;
    private Duration retryFor = DEFAULT_RETRY_FOR;
    private HttpClient http;
    // What copies share.
    private boolean ownHttp;
    private ObjectMapper mapper;
    private AtomicBoolean closed;
    private Set<Runnable> workers;

    private Builder() {}

    /** For example {@code https://dueq.example.com}; null: {@code DUEQ_SERVER}, or {@link #DEFAULT_URL}. */
    public Builder url(String server) {
      url = server;
      return this;
    }

    /** Sent with every request; null: {@code DUEQ_API_KEY}, or none. */
    public Builder apiKey(String key) {
      apiKey = key;
      return this;
    }

    /** How long the answer to a request may take, beside the time that a lease request asks to wait; 30 s unless given. */
    public Builder timeout(Duration most) {
      if (most.isZero() || most.isNegative()) {
        throw new IllegalArgumentException("the time-out is " + most + "; it has to be longer than nothing");
      }
      timeout = most;
      return this;
    }

    /** For how long in all a request is repeated, where that is safe; 30 s unless given, {@code Duration.ZERO}: not at all. */
    public Builder retryFor(Duration most) {
      if (most.isNegative()) {
        throw new IllegalArgumentException("a negative time of repeating: " + most);
      }
      retryFor = most;
      return this;
    }

    /** An HTTP client of one's own, for proxies and TLS; best with {@code version(HTTP_1_1)}, which is what dueq speaks. */
    public Builder httpClient(HttpClient client) {
      http = Objects.requireNonNull(client, "client");
      return this;
    }

    /** The client; it connects when it is used. */
    public Client build() {
      return new Client(this);
    }
  }

  /** A request that waits for messages has as much more time to be answered. */
  private final class WaitingLeases extends LeasesApi {
    WaitingLeases(ApiClient api) {
      super(api);
    }

    @Override
    public ApiResponse<LeaseResponse> leaseMessagesWithHttpInfo(String topic, LeaseRequest request, Map<String, String> headers) {
      return waiting(request == null ? null : request.getWaitMs()).leaseMessagesWithHttpInfo(topic, request, headers);
    }

    @Override
    public ApiResponse<LeaseResponse> leaseFromTopicsWithHttpInfo(LeaseFromTopicsRequest request, Map<String, String> headers) {
      return waiting(request == null ? null : request.getWaitMs()).leaseFromTopicsWithHttpInfo(request, headers);
    }

    private LeasesApi waiting(Long ms) {
      return new LeasesApi(api(Transport.Repeats.NONE, timeout.plusMillis(ms == null ? 0 : ms)));
    }
  }

  /** One mapper for all APIs, and the given HTTP client, where the generated class makes new ones for each. */
  private static final class SharedApiClient extends ApiClient {
    private final HttpClient http;
    private final ObjectMapper mapper;

    SharedApiClient(String url, HttpClient http, ObjectMapper mapper) {
      super(HttpClient.newBuilder(), mapper, url);
      this.http = http;
      this.mapper = mapper;
    }

    @Override
    public HttpClient getHttpClient() {
      return http;
    }

    @Override
    public ObjectMapper getObjectMapper() {
      return mapper;
    }
  }
}

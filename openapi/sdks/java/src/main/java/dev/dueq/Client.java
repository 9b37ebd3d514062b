package dev.dueq;

import com.fasterxml.jackson.databind.ObjectMapper;
import dev.dueq.api.CallbacksApi;
import dev.dueq.api.LeasesApi;
import dev.dueq.api.MessagesApi;
import dev.dueq.api.SchedulesApi;
import dev.dueq.api.ServiceApi;
import dev.dueq.api.TopicsApi;
import dev.dueq.invoker.ApiClient;
import dev.dueq.invoker.ApiException;
import dev.dueq.model.PublishRequest;
import dev.dueq.model.PublishedMessage;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;

/**
 * A dueq server: the generated routes, grouped by what they are about, over one {@link HttpClient}.
 *
 * <p>Every refusal of the server is thrown as a {@link ProblemException}. What fails on the way is an {@link ApiException} whose
 * cause is the {@link IOException} (or {@link InterruptedException}). Thread-safe; make one and keep it.
 */
public final class Client {
  /** Where dueq listens unless told otherwise. */
  public static final String DEFAULT_URL = "http://127.0.0.1:8080";

  /** A long poll takes up to 60 s, and then the answer has to come. */
  private static final Duration READ_TIMEOUT = Duration.ofSeconds(75);

  private static final Duration CONNECT_TIMEOUT = Duration.ofSeconds(10);

  private final String url;
  private final String apiKey;
  private final HttpClient http;
  private final ObjectMapper mapper = new Json();
  private final MessagesApi messages;
  private final LeasesApi leases;
  private final TopicsApi topics;
  private final CallbacksApi callbacks;
  private final SchedulesApi schedules;
  private final ServiceApi service;

  /** The server that {@code DUEQ_SERVER} names, or {@link #DEFAULT_URL}, with the key {@code DUEQ_API_KEY}, if any. */
  public Client() {
    this(null);
  }

  /**
   * A server, with the key {@code DUEQ_API_KEY}, if any.
   *
   * @param url for example {@code https://dueq.example.com}; null: as in {@link #Client()}
   */
  public Client(String url) {
    this(url, null);
  }

  /**
   * A server and a key.
   *
   * @param url for example {@code https://dueq.example.com}; null: as in {@link #Client()}
   * @param apiKey sent with every request; null: {@code DUEQ_API_KEY}, or none
   */
  public Client(String url, String apiKey) {
    this(url, apiKey, defaultHttpClient());
  }

  /**
   * A server, a key, and an HTTP client of one's own, for proxies and TLS.
   *
   * @param url for example {@code https://dueq.example.com}; null: as in {@link #Client()}
   * @param apiKey sent with every request; null: {@code DUEQ_API_KEY}, or none
   * @param http keeps the connections; best with {@code version(HTTP_1_1)}, which is what dueq speaks
   */
  public Client(String url, String apiKey, HttpClient http) {
    String given = url != null ? url : environment("DUEQ_SERVER", DEFAULT_URL);
    this.url = given.replaceAll("/+$", "");
    this.apiKey = apiKey != null ? apiKey : environment("DUEQ_API_KEY", null);
    this.http = http;
    ApiClient api = new SharedApiClient(this.url, http, mapper);
    api.setReadTimeout(READ_TIMEOUT);
    api.setRequestInterceptor(this::authorize);
    api.setResponseInterceptor(this::refuse);
    messages = new MessagesApi(api);
    leases = new LeasesApi(api);
    topics = new TopicsApi(api);
    callbacks = new CallbacksApi(api);
    schedules = new SchedulesApi(api);
    service = new ServiceApi(api);
  }

  /**
   * Publishes a message: {@code messages().publishMessage} without a header.
   *
   * @throws ProblemException when the server refuses it
   * @throws ApiException when it cannot be reached; repeating is safe with an idempotency key
   */
  public PublishedMessage publish(String topic, PublishRequest message) {
    return messages.publishMessage(topic, message, null);
  }

  /** Publish, look at, change and delete messages. */
  public MessagesApi messages() {
    return messages;
  }

  /** Lease, ack, nack and extend; a {@link Worker} does this for you. */
  public LeasesApi leases() {
    return leases;
  }

  /** Configure, list, pause, purge and redrive topics. */
  public TopicsApi topics() {
    return topics;
  }

  /** Have a URL called later. */
  public CallbacksApi callbacks() {
    return callbacks;
  }

  /** Publish by the clock. */
  public SchedulesApi schedules() {
    return schedules;
  }

  /** Health, readiness, metrics. */
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

  HttpClient http() {
    return http;
  }

  void authorize(HttpRequest.Builder request) {
    if (apiKey != null) {
      request.header("Authorization", "Bearer " + apiKey);
    }
  }

  /** HTTP/1.1, because the attempt to go up to HTTP/2 costs and dueq does not answer it. */
  public static HttpClient defaultHttpClient() {
    return HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(CONNECT_TIMEOUT).build();
  }

  /** Every answer passes here before the generated code reads it. */
  private void refuse(HttpResponse<InputStream> answer) {
    if (answer.statusCode() / 100 == 2) {
      return;
    }
    try (InputStream body = ApiClient.getResponseBody(answer)) {
      byte[] read = body == null ? new byte[0] : body.readAllBytes();
      throw ProblemException.of(answer.statusCode(), answer.headers(), read, mapper);
    } catch (IOException error) {
      throw new ApiException(error);
    }
  }

  private static String environment(String name, String otherwise) {
    String value = System.getenv(name);
    return value == null || value.isEmpty() ? otherwise : value;
  }

  /** One HTTP client and one mapper for all APIs, where the generated class makes new ones for each. */
  private static final class SharedApiClient extends ApiClient {
    private final HttpClient http;
    private final ObjectMapper mapper;

    SharedApiClient(String url, HttpClient http, ObjectMapper mapper) {
      super(HttpClient.newBuilder(), mapper, URI.create(url).toString());
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

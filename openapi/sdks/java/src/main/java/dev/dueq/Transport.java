package dev.dueq;

import com.fasterxml.jackson.databind.ObjectMapper;
import dev.dueq.invoker.ApiException;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.Authenticator;
import java.net.CookieHandler;
import java.net.ProxySelector;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpHeaders;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Executor;
import java.util.concurrent.Flow;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSession;

/**
 * The HTTP client of the generated code: it waits no longer than a request's time-out, repeats requests that are safe to repeat,
 * and throws a {@link ProblemException} or a {@link ConnectionException} for all that is no success.
 */
final class Transport extends HttpClient {
  /** Which requests are repeated. */
  enum Repeats {
    NONE,
    /** Those that are safe by themselves, or carry the header Idempotency-Key. */
    SAFE,
    /** All: their senders have made them safe to repeat. */
    ALL
  }

  private static final Pattern MESSAGE = Pattern.compile(".*(/messages|/topics/[^/]+/keys)/[^/]+");
  private static final Pattern SETTLING = Pattern.compile(".*/messages/([^/]+/)?(ack|nack|extend)");
  private static final Pattern DOTS = Pattern.compile("/\\.{0,2}(/|$)");
  private static final Pattern ACK = Pattern.compile(".*/messages/[^/]+/ack");

  private final Client client;
  private final HttpClient http;
  private final ObjectMapper mapper;
  private final Duration retryFor;
  private final Repeats repeats;

  Transport(Client client, Repeats repeats) {
    this.client = client;
    this.http = client.http();
    this.mapper = client.mapper();
    this.retryFor = client.retryFor();
    this.repeats = repeats;
  }

  /** The generated code asks for nothing but an {@link InputStream}. */
  @Override
  @SuppressWarnings("unchecked")
  public <T> HttpResponse<T> send(HttpRequest request, HttpResponse.BodyHandler<T> handler) throws InterruptedException {
    return (HttpResponse<T>) send(request);
  }

  private HttpResponse<InputStream> send(HttpRequest request) throws InterruptedException {
    requirePlain(request.uri());
    String operation = request.method() + " " + request.uri().getRawPath();
    Duration timeout = request.timeout().orElseThrow();
    long end = System.nanoTime() + retryFor.toNanos();
    boolean repeatable = repeatable(request);
    boolean perhapsDone = false;
    for (int failures = 1; ; failures++) {
      client.requireOpen();
      ApiException failure;
      try {
        HttpResponse<byte[]> answer = attempt(request, timeout);
        if (answer.statusCode() / 100 == 2) {
          requireDueq(answer, operation);
          return new Answer(answer, answer.statusCode());
        }
        ProblemException problem = ProblemException.of(answer.statusCode(), answer.headers(), answer.body(), mapper);
        if (perhapsDone && problem.code().equals("message_not_found") && isGoneWhenDone(request)) {
          return new Answer(answer, 204);
        }
        failure = problem;
      } catch (IOException error) {
        failure = ConnectionException.of(client.url(), operation, timeout, error);
      }
      if (!repeatable || !passes(failure) || !Backoff.sleep(failures, failure, end)) {
        client.requireOpen();
        throw failure;
      }
      perhapsDone |= perhapsDone(failure);
      timeout = within(timeout, end);
    }
  }

  /** A proxy may take such a path for another one: {@code DELETE /topics/orders/keys/..} for {@code DELETE /topics/orders}. */
  static void requirePlain(URI uri) {
    if (DOTS.matcher(uri.getRawPath()).find()) {
      throw new IllegalArgumentException("no path can have a part that is empty, \".\" or \"..\": " + uri.getRawPath());
    }
  }

  /** The time-out of a request that is repeated: no longer than what is left until the end. */
  static Duration within(Duration timeout, long end) {
    Duration left = Duration.ofNanos(Math.max(1_000_000, end - System.nanoTime()));
    return timeout.compareTo(left) <= 0 ? timeout : left;
  }

  private HttpResponse<byte[]> attempt(HttpRequest request, Duration timeout) throws IOException, InterruptedException {
    long end = System.nanoTime() + timeout.toNanos();
    HttpRequest timed = HttpRequest.newBuilder(request, (name, value) -> true).timeout(timeout).build();
    // The request's own time-out is over with the head of the answer.
    return http.send(timed, head -> new Body(end - System.nanoTime()));
  }

  /** A body that comes in time; otherwise its connection is closed. */
  private static final class Body implements HttpResponse.BodySubscriber<byte[]> {
    private final HttpResponse.BodySubscriber<byte[]> bytes = HttpResponse.BodySubscribers.ofByteArray();

    Body(long nanos) {
      getBody().toCompletableFuture().orTimeout(nanos, TimeUnit.NANOSECONDS);
    }

    @Override
    public CompletionStage<byte[]> getBody() {
      return bytes.getBody();
    }

    @Override
    public void onSubscribe(Flow.Subscription subscription) {
      getBody().exceptionally(late -> cancel(subscription));
      bytes.onSubscribe(subscription);
    }

    private static byte[] cancel(Flow.Subscription subscription) {
      subscription.cancel();
      return null;
    }

    @Override
    public void onNext(List<ByteBuffer> part) {
      bytes.onNext(part);
    }

    @Override
    public void onError(Throwable error) {
      bytes.onError(error);
    }

    @Override
    public void onComplete() {
      bytes.onComplete();
    }
  }

  /** A wrong URL may lead to a page, which the generated code would fail to read as JSON. */
  private void requireDueq(HttpResponse<byte[]> answer, String operation) {
    if (answer.headers().firstValue("content-type").orElse("").startsWith("text/html")) {
      throw new ConnectionException("what answers at " + client.url() + " is not dueq", client.url(), operation, null);
    }
  }

  private boolean repeatable(HttpRequest request) {
    if (repeats != Repeats.SAFE || retryFor.isZero()) {
      return repeats == Repeats.ALL && !retryFor.isZero();
    }
    String path = request.uri().getRawPath();
    return switch (request.method()) {
      case "GET" -> true;
      case "DELETE", "PATCH" -> MESSAGE.matcher(path).matches();
      case "POST" -> SETTLING.matcher(path).matches() || request.headers().firstValue("Idempotency-Key").isPresent();
      default -> false;
    };
  }

  /** Whether that the message is gone means that an earlier attempt was carried out. */
  private static boolean isGoneWhenDone(HttpRequest request) {
    return request.method().equals("DELETE") || ACK.matcher(request.uri().getRawPath()).matches();
  }

  /** Whether the same request may succeed later. */
  static boolean passes(ApiException failure) {
    return !(failure instanceof ProblemException problem)
        || switch (problem.status()) {
          case 408, 429, 502, 503, 504 -> true;
          default -> false;
        };
  }

  private static boolean perhapsDone(ApiException failure) {
    if (failure instanceof ConnectionException connection) {
      return !connection.refused();
    }
    return failure instanceof ProblemException problem
        && switch (problem.code()) {
          case "redis_unavailable", "overloaded" -> false;
          default -> problem.status() != 429;
        };
  }

  /** An answer that has come as a whole. */
  private record Answer(HttpResponse<byte[]> whole, int statusCode) implements HttpResponse<InputStream> {
    @Override
    public InputStream body() {
      return new ByteArrayInputStream(whole.body());
    }

    @Override
    public HttpRequest request() {
      return whole.request();
    }

    @Override
    public Optional<HttpResponse<InputStream>> previousResponse() {
      return Optional.empty();
    }

    @Override
    public HttpHeaders headers() {
      return whole.headers();
    }

    @Override
    public Optional<SSLSession> sslSession() {
      return whole.sslSession();
    }

    @Override
    public URI uri() {
      return whole.uri();
    }

    @Override
    public Version version() {
      return whole.version();
    }
  }

  // The generated code calls none of the rest.

  @Override
  public <T> CompletableFuture<HttpResponse<T>> sendAsync(HttpRequest request, HttpResponse.BodyHandler<T> handler) {
    throw new UnsupportedOperationException();
  }

  @Override
  public <T> CompletableFuture<HttpResponse<T>> sendAsync(
      HttpRequest request, HttpResponse.BodyHandler<T> handler, HttpResponse.PushPromiseHandler<T> pushes) {
    throw new UnsupportedOperationException();
  }

  @Override
  public Optional<CookieHandler> cookieHandler() {
    return http.cookieHandler();
  }

  @Override
  public Optional<Duration> connectTimeout() {
    return http.connectTimeout();
  }

  @Override
  public Redirect followRedirects() {
    return http.followRedirects();
  }

  @Override
  public Optional<ProxySelector> proxy() {
    return http.proxy();
  }

  @Override
  public SSLContext sslContext() {
    return http.sslContext();
  }

  @Override
  public SSLParameters sslParameters() {
    return http.sslParameters();
  }

  @Override
  public Optional<Authenticator> authenticator() {
    return http.authenticator();
  }

  @Override
  public Version version() {
    return http.version();
  }

  @Override
  public Optional<Executor> executor() {
    return http.executor();
  }
}

package dev.dueq;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpHandler;
import java.io.IOException;
import java.util.Objects;
import java.util.function.Consumer;

/**
 * Takes dueq's callbacks in the JDK's HTTP server: {@code server.createContext("/remind", new WebhookHandler(secret, body -> …))}.
 * A request that {@link Webhooks#verify} refuses is answered with 401, and any other with 204, after its body was consumed.
 */
public final class WebhookHandler implements HttpHandler {
  private final String secret;
  private final Consumer<byte[]> consumer;

  /**
   * A handler of callbacks that are signed with this secret.
   *
   * @param secret {@code whsec_} and base64
   * @param consumer called with the body of each; dueq calls again when it throws
   */
  public WebhookHandler(String secret, Consumer<byte[]> consumer) {
    this.secret = Objects.requireNonNull(secret, "a webhook handler needs a secret");
    this.consumer = Objects.requireNonNull(consumer, "a webhook handler needs a consumer");
  }

  @Override
  public void handle(HttpExchange call) throws IOException {
    try {
      consumer.accept(Webhooks.verify(call.getRequestBody(), call.getRequestHeaders(), secret));
      call.sendResponseHeaders(204, -1);
    } catch (WebhookException refused) {
      call.sendResponseHeaders(401, -1);
    } finally {
      call.close();
    }
  }
}

package dev.dueq;

import java.io.IOException;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.List;
import java.util.concurrent.CancellationException;

/**
 * Sends the worker's requests and reads what is answered, outside of the engine's lock.
 *
 * <p>A thread waits for each: `sendAsync` hands its answer to ForkJoinPool's common pool, and where that is too small, as with two
 * processors, to a new thread every time, which costs three times as much as all the rest.
 */
final class Requests {
  /** What became of a request: `leased`, `results` or `error`. */
  record Answer(Wire.Leased leased, List<Wire.Outcome> results, Throwable error) {}

  private final Client client;
  private final HttpClient http;
  private final Wire wire;

  Requests(Worker.Builder options) {
    client = options.client;
    http = client.http();
    wire = new Wire(client, options.topics, options.leaseMs, options.leaseWaitMs());
  }

  /** Sends it and waits for what becomes of it. */
  Answer exchange(Call call) {
    client.requireOpen();
    if (!call.begin()) {
      return failed(new CancellationException());
    }
    Exception error = null;
    HttpResponse<byte[]> response = null;
    try {
      response = http.send(request(call), HttpResponse.BodyHandlers.ofByteArray());
    } catch (IOException | InterruptedException | RuntimeException failure) {
      error = failure;
    }
    boolean cancelled = call.end();
    if (error != null) {
      return failed(cancelled ? new CancellationException() : lost(call, error));
    }
    return read(call, response, System.nanoTime());
  }

  private HttpRequest request(Call call) {
    return switch (call.kind) {
      case LEASE -> wire.lease(call.asked, call.held);
      case ACK -> wire.ack(call.held);
      case NACK -> wire.nack(call.held);
      case EXTEND -> wire.extend(call.held);
    };
  }

  private ConnectionException lost(Call call, Exception error) {
    return ConnectionException.of(client.url(), call.operation(), call.timeout, error);
  }

  private static Answer failed(Throwable error) {
    return new Answer(null, null, error);
  }

  private Answer read(Call call, HttpResponse<byte[]> response, long now) {
    if (response.statusCode() != 200) {
      return new Answer(
          null, null, ProblemException.of(response.statusCode(), response.headers(), response.body(), client.mapper()));
    }
    try {
      return call.kind == Call.Kind.LEASE
          ? new Answer(wire.leased(response.body(), now), null, null)
          : new Answer(null, wire.results(response.body()), null);
    } catch (IOException | RuntimeException unreadable) {
      return failed(ConnectionException.unreadable(client.url(), call.operation(), unreadable));
    }
  }
}

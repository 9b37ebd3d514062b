package dev.dueq;

import dev.dueq.model.CallbackRequest;
import dev.dueq.model.PublishRequest;
import dev.dueq.model.ScheduledMessageRequest;
import java.util.Objects;
import java.util.stream.Stream;

/**
 * A message to publish: its payload and its options.
 *
 * <pre>{@code
 * client.publish("orders", order, with -> with.delay(Duration.ofMinutes(30)).key("order/42"));
 * client.publishBatch("orders", List.of(new Publish(first), new Publish(second).priority(9)));
 * }</pre>
 */
public final class Publish extends MessageOptions<Publish> {
  private final Object payload;
  private CallbackRequest callback;

  /**
   * A message with this payload, due now.
   *
   * @param payload whatever Jackson writes, null included; a {@code byte[]} is published as bytes
   */
  public Publish(Object payload) {
    this.payload = payload;
  }

  /** Where dueq sends the message; only in a pushed topic. To have any URL called, see {@link Client#callback}. */
  public Publish callback(CallbackRequest request) {
    callback = request;
    return this;
  }

  @Override
  Publish self() {
    return this;
  }

  /** The payload as a message, unless it is one already. */
  static Publish of(Object payload) {
    return payload instanceof Publish publish ? publish : new Publish(payload);
  }

  PublishRequest request() {
    PublishRequest request = new PublishRequest();
    payload(payload, request::setPayload, request::setPayloadBase64);
    set(contentType, request::setContentType);
    set(delayMs, request::setDelayMs);
    set(deliverAt, request::setDeliverAt);
    set(debounce, request::setDebounce);
    set(throttle, request::setThrottle);
    set(once, request::setOnce);
    set(key, request::setKey);
    set(onDuplicate, request::setOnDuplicate);
    set(keyUntil, request::setKeyUntil);
    set(group, request::setGroup);
    set(idempotencyKey, request::setIdempotencyKey);
    set(priority, request::setPriority);
    set(ttlMs, request::setTtlMs);
    set(maxAttempts, request::setMaxAttempts);
    set(backoff, request::setBackoff);
    set(onDone, request::setOnDone);
    set(onDead, request::setOnDead);
    set(Trace.with(headers), request::setHeaders);
    set(callback, request::setCallback);
    return request;
  }

  /** As a schedule publishes it, which says itself when, and belongs to no trace of today's. */
  ScheduledMessageRequest tick() {
    if (Stream.of(delayMs, deliverAt, debounce, throttle, once, idempotencyKey).anyMatch(Objects::nonNull)) {
      throw new IllegalArgumentException(
          "the message of a schedule has no delay, at, debounce, throttle, once or idempotencyKey");
    }
    ScheduledMessageRequest request = new ScheduledMessageRequest();
    payload(payload, request::setPayload, request::setPayloadBase64);
    set(contentType, request::setContentType);
    set(key, request::setKey);
    set(onDuplicate, request::setOnDuplicate);
    set(keyUntil, request::setKeyUntil);
    set(group, request::setGroup);
    set(priority, request::setPriority);
    set(ttlMs, request::setTtlMs);
    set(maxAttempts, request::setMaxAttempts);
    set(backoff, request::setBackoff);
    set(onDone, request::setOnDone);
    set(onDead, request::setOnDead);
    set(headers, request::setHeaders);
    set(callback, request::setCallback);
    return request;
  }
}

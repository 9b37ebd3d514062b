package dev.dueq;

import dev.dueq.model.BackoffRequest;
import dev.dueq.model.CompletionRequest;
import dev.dueq.model.DebounceRequest;
import dev.dueq.model.KeyUntil;
import dev.dueq.model.OnDuplicate;
import dev.dueq.model.OnceRequest;
import dev.dueq.model.ThrottleRequest;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.function.Consumer;

/**
 * What {@link Publish} and {@link CallbackOptions} have in common: when a message is due, its name, and how often it is tried. All
 * is optional.
 *
 * @param <O> which of the two
 */
public abstract sealed class MessageOptions<O extends MessageOptions<O>> permits Publish, CallbackOptions {
  /** Ten years. */
  static final Duration LONGEST = Duration.ofDays(3650);

  String contentType;
  Long delayMs;
  OffsetDateTime deliverAt;
  DebounceRequest debounce;
  ThrottleRequest throttle;
  OnceRequest once;
  String key;
  OnDuplicate onDuplicate;
  KeyUntil keyUntil;
  String group;
  String idempotencyKey;
  Long priority;
  Long ttlMs;
  Long maxAttempts;
  BackoffRequest backoff;
  Map<String, String> headers;
  CompletionRequest onDone;
  CompletionRequest onDead;

  MessageOptions() {}

  abstract O self();

  /** Due so long after the server takes it, up to ten years; now unless given. Not with {@link #at}. */
  public O delay(Duration delay) {
    delayMs = milliseconds("delay", delay);
    return self();
  }

  /** Due at this instant; one in the past means now. Not with {@link #delay}. */
  public O at(Instant due) {
    deliverAt = Objects.requireNonNull(due, "due").atOffset(ZoneOffset.UTC);
    return self();
  }

  /**
   * One message in place of many: each publish of the key makes it due so long from now, with the new content, until it is leased.
   * Not with {@link #delay}, {@link #at}, {@link #key}, {@link #onDuplicate}, {@link #keyUntil} or {@link #idempotencyKey}.
   */
  public O debounce(String key, Duration delay) {
    debounce = new DebounceRequest().key(key).delayMs(milliseconds("delay", delay));
    return self();
  }

  /** The same, but due no later than {@code maxWait} after the first publish. */
  public O debounce(String key, Duration delay, Duration maxWait) {
    debounce(key, delay);
    debounce.setMaxWaitMs(milliseconds("maxWait", maxWait));
    return self();
  }

  /**
   * At most one message per interval: the first at once, the latest content of the others at the end of the interval, where the next
   * one begins. Not with what {@link #debounce(String, Duration)} excludes.
   */
  public O throttle(String key, Duration every) {
    throttle = new ThrottleRequest().key(key).everyMs(milliseconds("every", every));
    return self();
  }

  /**
   * One message: for so long, whatever else is published with the key gets the first answer. Not with {@link #key}, {@link
   * #onDuplicate}, {@link #keyUntil} or {@link #idempotencyKey}.
   */
  public O once(String key, Duration lasting) {
    once = new OnceRequest().key(key).forMs(milliseconds("lasting", lasting));
    return self();
  }

  /** The message's own name in its topic, such as {@code order/42}: {@link Client#key} finds it by that as long as it is live. */
  public O key(String name) {
    key = name;
    return self();
  }

  /** What happens when the key is taken; unless given, the live message answers. Only with {@link #key}. */
  public O onDuplicate(OnDuplicate what) {
    onDuplicate = what;
    return self();
  }

  /** How long the message holds its key; until it is done unless given. Only with {@link #key}. */
  public O keyUntil(KeyUntil until) {
    keyUntil = until;
    return self();
  }

  /** Messages of a group are leased in the order in which they were published. */
  public O group(String name) {
    group = name;
    return self();
  }

  /** What is published with the same one within ten minutes (the topic's setting) is the same message; random unless given. */
  public O idempotencyKey(String value) {
    idempotencyKey = value;
    return self();
  }

  /** 0 to 255; of ready messages the higher goes first. 0 unless given. */
  public O priority(int value) {
    priority = (long) value;
    return self();
  }

  /** How long after it is first due the message expires; the topic's setting unless given. */
  public O ttl(Duration ttl) {
    ttlMs = milliseconds("ttl", ttl);
    return self();
  }

  /** After how many attempts it is dead, 1 to 1000; the topic's setting unless given. */
  public O maxAttempts(int attempts) {
    maxAttempts = (long) attempts;
    return self();
  }

  /** How long it waits after a failure; the topic's setting unless given. */
  public O backoff(BackoffRequest policy) {
    backoff = policy;
    return self();
  }

  /** A header that comes with the message; at most 32. */
  public O header(String name, String value) {
    headers = headers == null ? new LinkedHashMap<>() : headers;
    headers.put(name, value);
    return self();
  }

  /** Where to publish what came of it: its URL or its topic is set; the topic's setting unless given. */
  public O onDone(CompletionRequest to) {
    onDone = to;
    return self();
  }

  /** Where to publish that it died; the topic's setting unless given. */
  public O onDead(CompletionRequest to) {
    onDead = to;
    return self();
  }

  /** The media type of a payload that is a {@code byte[]}; {@code application/octet-stream} unless given. */
  public O contentType(String type) {
    contentType = type;
    return self();
  }

  static Long milliseconds(String name, Duration duration) {
    if (Objects.requireNonNull(duration, name).isNegative() || duration.compareTo(LONGEST) > 0) {
      throw new IllegalArgumentException(name + " is " + duration + ", not zero to ten years");
    }
    return milliseconds(duration);
  }

  /** A part of a millisecond counts as one, so that what is not zero does not become zero. */
  static long milliseconds(Duration duration) {
    return duration.plusNanos(999_999).toMillis();
  }

  /** Sets what was given, so that what was not is absent. */
  static <V> void set(V value, Consumer<V> setter) {
    if (value != null) {
      setter.accept(value);
    }
  }

  static void payload(Object payload, Consumer<Object> json, Consumer<String> base64) {
    if (payload instanceof byte[] bytes) {
      base64.accept(Base64.getEncoder().encodeToString(bytes));
    } else {
      json.accept(payload);
    }
  }
}

package dev.dueq;

import dev.dueq.model.AuthRequest;
import dev.dueq.model.CallMethod;
import dev.dueq.model.RetryRequest;
import dev.dueq.model.ScheduleCallbackRequest;
import java.net.URI;
import java.time.Duration;
import java.util.Objects;

/** When and how dueq calls a URL: the options of a message, and those of the call. */
public final class CallbackOptions extends MessageOptions<CallbackOptions> {
  private CallMethod method;
  private Long timeoutMs;
  private Long connectTimeoutMs;
  private RetryRequest retry;
  private AuthRequest auth;
  private String clientCert;

  CallbackOptions() {}

  /** The method of the call; POST unless given. */
  public CallbackOptions method(CallMethod value) {
    method = value;
    return this;
  }

  /** How long the called server may take, 100 ms to 30 min; 15 s unless given. */
  public CallbackOptions timeout(Duration timeout) {
    timeoutMs = milliseconds("timeout", timeout);
    return this;
  }

  /** How much of that connecting may take, TLS included; unless given 5 s, and 10 s with TLS. */
  public CallbackOptions connectTimeout(Duration timeout) {
    connectTimeoutMs = milliseconds("connectTimeout", timeout);
    return this;
  }

  /** Which failed calls are retried; all except for 410 unless given. */
  public CallbackOptions retry(RetryRequest rules) {
    retry = rules;
    return this;
  }

  /** How the call proves who is calling, in place of a header {@code authorization}. */
  public CallbackOptions auth(AuthRequest kind) {
    auth = kind;
    return this;
  }

  /** The name of the server's client certificate to call with. */
  public CallbackOptions clientCert(String name) {
    clientCert = name;
    return this;
  }

  @Override
  CallbackOptions self() {
    return this;
  }

  ScheduleCallbackRequest request(String url) {
    ScheduleCallbackRequest request = new ScheduleCallbackRequest().url(URI.create(Objects.requireNonNull(url, "url")));
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
    set(method, request::setMethod);
    set(timeoutMs, request::setTimeoutMs);
    set(connectTimeoutMs, request::setConnectTimeoutMs);
    set(retry, request::setRetry);
    set(auth, request::setAuth);
    set(clientCert, request::setClientCert);
    return request;
  }
}

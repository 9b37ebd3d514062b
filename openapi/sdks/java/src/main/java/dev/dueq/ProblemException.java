package dev.dueq;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.dueq.invoker.ApiException;
import dev.dueq.model.FieldError;
import java.io.IOException;
import java.net.http.HttpHeaders;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;

/**
 * The server refused a request and said why ({@code application/problem+json}, RFC 9457).
 *
 * <p>{@link #code()} is for programs and never changes; {@link #getCode()}, which the generated class has, is the HTTP status.
 */
public final class ProblemException extends ApiException {
  private static final long serialVersionUID = 1L;

  /** A day. */
  private static final long LONGEST_RETRY_AFTER_S = 86_400;

  private final String code;
  private final String detail;
  private final String requestId;
  private final transient List<FieldError> errors;
  private final Duration retryAfter;

  private ProblemException(
      int status,
      String code,
      String detail,
      String requestId,
      List<FieldError> errors,
      Duration retryAfter,
      HttpHeaders headers,
      String body) {
    super(status, message(status, code, detail, errors), headers, body);
    this.code = code;
    this.detail = detail;
    this.requestId = requestId;
    this.errors = List.copyOf(errors);
    this.retryAfter = retryAfter;
  }

  /** {@code 422 invalid_input: on_duplicate: can only be given with key}: every wrong field, or the detail. */
  private static String message(int status, String code, String detail, List<FieldError> errors) {
    String fields = errors.stream().map(error -> error.getField() + ": " + error.getReason()).collect(Collectors.joining("; "));
    String what = fields.isEmpty() ? detail : fields;
    return status + " " + code + ": " + (what.isBlank() ? "the answer says nothing more" : what);
  }

  /** The HTTP status, for example 409. */
  public int status() {
    return getCode();
  }

  /** What happened, for programs, for example {@code lease_lost}; {@code http_error} when something else than dueq answered. */
  public String code() {
    return code;
  }

  /** What happened, for people. */
  public String detail() {
    return detail;
  }

  /** The request's id, as the server logs it; empty when something else than dueq answered. */
  public String requestId() {
    return requestId;
  }

  /** What is wrong with which field; empty unless the input was bad. */
  public List<FieldError> errors() {
    return errors == null ? List.of() : errors;
  }

  /** How long the server wants to be left alone, if it said so; a day at most. */
  public Optional<Duration> retryAfter() {
    return Optional.ofNullable(retryAfter);
  }

  /** Whether the same request may succeed later: 408, 429 and 5xx. */
  boolean passes() {
    return status() == 408 || status() == 429 || status() >= 500;
  }

  static ProblemException of(int status, HttpHeaders headers, byte[] body, ObjectMapper mapper) {
    String text = new String(body, StandardCharsets.UTF_8);
    JsonNode problem = read(body, mapper);
    List<FieldError> errors = new ArrayList<>();
    for (JsonNode error : problem.path("errors")) {
      errors.add(new FieldError().field(error.path("field").asText()).reason(error.path("reason").asText()));
    }
    return new ProblemException(
        status,
        problem.path("code").asText("http_error"),
        problem.path("detail").asText(text.length() > 200 ? text.substring(0, 200) : text),
        problem.path("request_id").asText(headers.firstValue("x-request-id").orElse("")),
        errors,
        headers.firstValue("retry-after").map(ProblemException::seconds).orElse(null),
        headers,
        text);
  }

  private static JsonNode read(byte[] body, ObjectMapper mapper) {
    try {
      return mapper.readTree(body);
    } catch (JsonProcessingException notJson) {
      return mapper.missingNode();
    } catch (IOException cannotBe) {
      throw new IllegalStateException(cannotBe);
    }
  }

  private static Duration seconds(String value) {
    try {
      return Duration.ofSeconds(Math.max(0, Math.min(Long.parseLong(value.trim()), LONGEST_RETRY_AFTER_S)));
    } catch (NumberFormatException date) {
      return null;
    }
  }
}

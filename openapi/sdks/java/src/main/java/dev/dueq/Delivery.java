package dev.dueq;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonMappingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.dueq.model.LeasedMessage;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Objects;
import java.util.stream.Collectors;
import org.openapitools.jackson.nullable.JsonNullable;

/**
 * A message as a {@link Worker} gives it to a {@link Handler}: a {@link LeasedMessage} whose payload is decoded when it is asked
 * for, so that a payload that cannot be decoded fails its own handler and nothing else.
 */
public final class Delivery extends LeasedMessage {
  private final ObjectMapper mapper;
  private byte[] json;

  Delivery(ObjectMapper mapper) {
    this.mapper = mapper;
  }

  /** The payload's JSON as it was published; null when it is bytes. */
  public String payloadJson() {
    return json == null ? null : new String(json, StandardCharsets.UTF_8);
  }

  /**
   * The payload as a class of yours.
   *
   * @throws IOException when it does not fit that class, or is no JSON
   */
  public <T> T payloadAs(Class<T> type) throws IOException {
    if (json == null) {
      throw new IOException("the payload is bytes (" + getContentType() + "), not JSON");
    }
    try {
      return mapper.readValue(json, type);
    } catch (JsonMappingException error) {
      // Jackson's message quotes the value, and this one becomes the reason of the nack.
      String field = error.getPath().stream().map(Delivery::step).collect(Collectors.joining("."));
      throw new IOException("the payload does not fit " + type.getSimpleName() + (field.isEmpty() ? "" : ": " + field), error);
    }
  }

  /** The payload's bytes, for a message that was published as bytes; null when it is JSON. */
  public byte[] payloadBytes() {
    return getPayloadBase64() == null ? null : Base64.getDecoder().decode(getPayloadBase64());
  }

  /**
   * The payload: a Map, List, String, Integer, Long, BigInteger, BigDecimal, Boolean or null. Null also for bytes.
   *
   * @throws IllegalStateException when a number in it is too long to be read
   */
  @Override
  public Object getPayload() {
    decode();
    return super.getPayload();
  }

  @Override
  public JsonNullable<Object> getPayload_JsonNullable() {
    decode();
    return super.getPayload_JsonNullable();
  }

  @Override
  public boolean equals(Object other) {
    decode();
    return other instanceof Delivery delivery && delivery.decode() && super.equals(other);
  }

  @Override
  public int hashCode() {
    return Objects.hash(getId(), getLeaseToken());
  }

  @Override
  public String toString() {
    decode();
    return super.toString();
  }

  private static String step(JsonMappingException.Reference step) {
    return step.getFieldName() != null ? step.getFieldName() : String.valueOf(step.getIndex());
  }

  void json(byte[] value) {
    json = value;
  }

  private boolean decode() {
    if (json != null && !super.getPayload_JsonNullable().isPresent()) {
      try {
        setPayload(mapper.readValue(json, Object.class));
      } catch (JsonProcessingException error) {
        throw new IllegalStateException("the payload cannot be read: " + error.getOriginalMessage(), error);
      } catch (IOException error) {
        throw new IllegalStateException(error);
      }
    }
    return true;
  }
}

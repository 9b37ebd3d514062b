package dev.dueq;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.BeanDescription;
import com.fasterxml.jackson.databind.DeserializationConfig;
import com.fasterxml.jackson.databind.DeserializationContext;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonDeserializer;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.deser.Deserializers;
import com.fasterxml.jackson.databind.jsontype.TypeDeserializer;
import com.fasterxml.jackson.databind.module.SimpleModule;
import com.fasterxml.jackson.databind.type.ReferenceType;
import com.fasterxml.jackson.datatype.jsr310.JavaTimeModule;
import dev.dueq.invoker.RFC3339JavaTimeModule;
import java.io.IOException;
import java.util.Map;
import org.openapitools.jackson.nullable.JsonNullable;
import org.openapitools.jackson.nullable.JsonNullableModule;

/** The mapper of the generated client, made to keep any payload as it is. */
final class Json extends ObjectMapper {
  private static final long serialVersionUID = 1L;

  /** Digits of one number; reading takes time in proportion to their square. */
  private static final int LONGEST_NUMBER = 20_000;

  Json() {
    super(
        JsonFactory.builder()
            .enable(JsonWriteFeature.COMBINE_UNICODE_SURROGATES_IN_UTF8)
            .streamReadConstraints(StreamReadConstraints.builder().maxNumberLength(LONGEST_NUMBER).build())
            .build());
    // As ApiClient.createDefaultObjectMapper does it, but a null inside a payload stays.
    setDefaultPropertyInclusion(JsonInclude.Value.construct(JsonInclude.Include.NON_NULL, JsonInclude.Include.ALWAYS));
    disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES);
    disable(DeserializationFeature.ADJUST_DATES_TO_CONTEXT_TIME_ZONE);
    disable(SerializationFeature.WRITE_DATES_AS_TIMESTAMPS);
    // And 0.1, 1e400 and the like are read as they were written.
    enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS);
    registerModule(new JavaTimeModule());
    registerModule(new JsonNullableModule());
    registerModule(new RFC3339JavaTimeModule());
    registerModule(new Payloads());
  }

  /**
   * The body of a request. Bytes stay bytes: only {@code publishRaw} has them as its whole body. A body that was left out is an
   * empty object: the generated code would send null.
   */
  @Override
  public byte[] writeValueAsBytes(Object value) throws JsonProcessingException {
    return value instanceof byte[] bytes ? bytes : super.writeValueAsBytes(value == null ? Map.of() : value);
  }

  /** {@link JsonNullableModule} takes a blank string for an absent value, which is wrong where any JSON may stand. */
  private static final class Payloads extends SimpleModule {
    private static final long serialVersionUID = 1L;

    @Override
    public void setupModule(SetupContext context) {
      super.setupModule(context);
      context.addDeserializers(
          new Deserializers.Base() {
            @Override
            public JsonDeserializer<?> findReferenceDeserializer(
                ReferenceType type,
                DeserializationConfig config,
                BeanDescription bean,
                TypeDeserializer contentType,
                JsonDeserializer<?> content) {
              boolean any = type.hasRawClass(JsonNullable.class) && type.getContentType().hasRawClass(Object.class);
              return any ? new Payload() : null;
            }
          });
    }
  }

  private static final class Payload extends JsonDeserializer<JsonNullable<Object>> {
    @Override
    public JsonNullable<Object> deserialize(JsonParser json, DeserializationContext context) throws IOException {
      return JsonNullable.of(context.readValue(json, Object.class));
    }

    @Override
    public JsonNullable<Object> getNullValue(DeserializationContext context) {
      return JsonNullable.of(null);
    }

    @Override
    public JsonNullable<Object> getAbsentValue(DeserializationContext context) {
      return JsonNullable.undefined();
    }
  }
}

import dev.dueq.Client;
import dev.dueq.Worker;
import dev.dueq.api.MessagesApi.APIGetMessageRequest;
import dev.dueq.api.MessagesApi.APIPublishRawRequest;
import dev.dueq.model.Message;
import dev.dueq.model.PublishRequest;
import dev.dueq.model.PublishedMessage;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;

/** Payloads that clients tend to change on their way there and back; fails on the first that does, prints {@code ok} otherwise. */
final class Payloads {
  private Payloads() {}

  private static final List<String> JSON =
      List.of(
          "null",
          "false",
          "0",
          "\"\"",
          "{}",
          "[]",
          "{\"a\":null,\"b\":[null,{\"c\":null}],\"\":1}",
          "123456789012345678901234567890",
          "0.1",
          "1E+400",
          "-1.5E-7",
          "1.10",
          "{\"ü\":\"\\u0000 \\\" \\\\ \uD83D\uDE00\"}",
          "[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]");

  static void run(Client client, String topic) throws Exception {
    List<Object> values = new ArrayList<>();
    for (String json : JSON) {
      values.add(client.mapper().readValue(json, Object.class));
    }
    for (int i = 0; i < values.size(); i++) {
      PublishedMessage sent = client.publish(topic, new PublishRequest().payload(values.get(i)));
      Message there = client.messages().getMessage(APIGetMessageRequest.newBuilder().id(sent.getId()).build());
      same(JSON.get(i), client.mapper().writeValueAsString(there.getPayload()));
      same("true", String.valueOf(there.getPayload_JsonNullable().isPresent()));
    }
    byte[] bytes = "\u0000\u00FF ü".getBytes(StandardCharsets.UTF_8);
    client.messages().publishRaw(APIPublishRawRequest.newBuilder().topic(topic).body(bytes).build());
    AtomicReference<Worker> worker = new AtomicReference<>();
    AtomicReference<Throwable> wrong = new AtomicReference<>();
    List<String> came = new ArrayList<>();
    worker.set(
        Worker.builder(
                client,
                topic,
                (message, lease) -> {
                  try {
                    if (came.size() < JSON.size()) {
                      int at = came.size();
                      came.add(message.payloadJson());
                      same(JSON.get(at), message.payloadJson());
                      same(String.valueOf(values.get(at)), String.valueOf(message.getPayload()));
                    } else {
                      same(Arrays.toString(bytes), Arrays.toString(message.payloadBytes()));
                      worker.get().stop();
                    }
                  } catch (Exception | AssertionError error) {
                    wrong.set(error);
                    worker.get().stop();
                  }
                })
            .concurrency(1)
            .build());
    worker.get().run();
    if (wrong.get() != null) {
      throw new IllegalStateException(wrong.get());
    }
    Main.print("ok");
  }

  private static void same(String wanted, String got) {
    if (!wanted.equals(got)) {
      throw new AssertionError("wanted " + wanted + ", got " + got);
    }
  }
}

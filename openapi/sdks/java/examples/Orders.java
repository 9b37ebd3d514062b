import com.sun.net.httpserver.HttpServer;
import dev.dueq.*;
import dev.dueq.model.*;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.Supplier;

/** An order service: payment reminders, work that fails, and a callback. */
public class Orders {
  record Order(int order) {}

  public static void main(String[] args) throws Exception {
    Client client = new Client();

    // A reminder in half an hour, found again by its key.
    client.publish("orders", new Order(1), with -> with.delay(Duration.ofMinutes(30)).key("order/1"));
    MessageKey reminder = client.key("orders", "order/1");
    System.out.println("published " + reminder.get().orElseThrow().getKey());
    System.out.println("moved " + reminder.reschedule(Duration.ofMinutes(60)));
    System.out.println("cancelled " + reminder.cancel() + " then " + reminder.cancel());

    // One order, one message.
    client.publish("orders", new Order(2), with -> with.key("order/2"));
    try {
      client.publish("orders", new Order(2), with -> with.key("order/2").onDuplicate(OnDuplicate.REJECT));
    } catch (ProblemException problem) {
      System.out.println("refused " + problem.code());
    }
    Supplier<PublishedMessage> pay = () -> client.publish("payments", new Order(3), with -> with.idempotencyKey("3"));
    if (pay.get().getId().equals(pay.get().getId())) System.out.println("repeated the same message");

    // Work: 11 fails once, 12 for good.
    var results = client.publishBatch("work", List.of(new Order(10), new Order(11), new Order(12)));
    System.out.println("batch " + results.stream().filter(result -> result.getStatus().equals("ok")).count());
    Set<Integer> done = new ConcurrentSkipListSet<>();
    Worker.builder(client, "work", Handler.of(Order.class, (work, message, lease) -> {
      if (work.order() == 11 && message.getAttempt() == 1) throw new RetryIn(Duration.ZERO, "not yet");
      if (work.order() == 12) throw new Dead("no such order");
      done.add(work.order());
    })).untilEmpty(true).build().run();
    System.out.println("worked " + String.join(" ", done.stream().map(String::valueOf).toList()));
    for (Message dead : client.dead("work")) System.out.println("dead " + ((Map<?, ?>) dead.getPayload()).get("order"));
    System.out.println("redriven " + client.redrive("work"));

    // dueq calls this program.
    var called = new CompletableFuture<byte[]>();
    HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
    server.createContext("/", new WebhookHandler(System.getenv("WEBHOOK_SECRET"), called::complete));
    server.start();
    client.callback("http://127.0.0.1:" + server.getAddress().getPort() + "/", new Order(10));
    System.out.println("callback " + new String(called.get()));
    server.stop(1);

    try {
      new Client("http://127.0.0.1:1").withRetryFor(Duration.ZERO).publish("orders", new Order(1));
    } catch (ConnectionException error) {
      System.out.println("unreachable " + error.url());
    }
  }
}

import com.sun.net.httpserver.HttpServer;
import dev.dueq.*;
import dev.dueq.model.*;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;

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
    client.publish("orders", new Order(2), with -> with.delay(Duration.ofMinutes(30)).key("order/2"));
    try {
      client.publish("orders", new Order(2), with -> with.key("order/2").onDuplicate(OnDuplicate.REJECT));
    } catch (ProblemException problem) {
      System.out.println("refused " + problem.code());
    }
    UUID first = client.publish("payments", new Order(3), with -> with.idempotencyKey("payment-3")).getId();
    UUID second = client.publish("payments", new Order(3), with -> with.idempotencyKey("payment-3")).getId();
    System.out.println("repeated the " + (first.equals(second) ? "same message" : "message twice"));

    // Work: 11 fails once, 12 for good.
    var orders = List.of(new Publish(new Order(10)), new Publish(new Order(11)), new Publish(new Order(12)));
    var results = client.publishBatch("work", orders);
    System.out.println("batch " + results.stream().filter(result -> result.getStatus().equals("ok")).count());
    Set<Integer> done = new ConcurrentSkipListSet<>();
    CountDownLatch over = new CountDownLatch(3);
    Worker worker = Worker.builder(client, "work", (message, lease) -> {
      int order = message.payloadAs(Order.class).order();
      if (order == 11 && message.getAttempt() == 1) throw new RetryIn(Duration.ZERO, "not yet");
      over.countDown();
      if (order == 12) throw new Dead("no such order");
      done.add(order);
    }).build();
    new Thread(worker::run).start();
    over.await();
    worker.close();
    System.out.println("worked " + String.join(" ", done.stream().map(String::valueOf).toList()));
    for (Message dead : client.dead("work")) {
      System.out.println("dead " + client.mapper().convertValue(dead.getPayload(), Order.class).order());
    }
    System.out.println("redriven " + client.redrive("work"));

    // dueq calls this program.
    BlockingQueue<String> called = new ArrayBlockingQueue<>(1);
    HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
    server.createContext("/", call -> {
      byte[] body = call.getRequestBody().readAllBytes();
      try {
        Webhooks.verify(body, call.getRequestHeaders(), System.getenv("WEBHOOK_SECRET"));
        called.add(new String(body));
        call.sendResponseHeaders(204, -1);
      } catch (WebhookException forged) {
        call.sendResponseHeaders(401, -1);
      }
    });
    server.start();
    client.callback("http://127.0.0.1:" + server.getAddress().getPort() + "/", new Order(10));
    System.out.println("callback " + called.take());
    server.stop(1);

    try (Client away = Client.builder().url("http://127.0.0.1:1").retryFor(Duration.ZERO).build()) {
      away.publish("orders", new Order(1));
    } catch (ConnectionException error) {
      System.out.println("unreachable " + error.url());
    }
    client.close();
  }
}

import dev.dueq.Client;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;

/** The test program of the Java SDK: what each subcommand does and prints is said in each class. */
public final class Main {
  private Main() {}

  public static void main(String[] args) throws Exception {
    Map<String, String> options = new HashMap<>();
    boolean publish = args.length > 2 && args[0].equals("publish");
    for (int i = publish ? 3 : 1; i + 1 < args.length; i += 2) {
      options.put(args[i].substring(2), args[i + 1]);
    }
    Client client = new Client(options.get("server"));
    String topic = options.getOrDefault("topic", "");
    switch (args.length == 0 ? "" : args[0]) {
      case "steps" -> new Steps(client, topic, Main::print).run(Set.of());
      case "publish" -> Publishing.run(options.get("server"), Integer.parseInt(args[1]), args[2]);
      case "echo" -> Echo.run(client, topic, options.get("to"));
      case "work" -> Work.work(client, topic, number(options, "concurrency", 10), number(options, "prefetch", 1));
      case "lose" -> Work.lose(client, topic);
      case "bench-work" ->
          Bench.work(
              client,
              topic,
              number(options, "concurrency", 64),
              number(options, "prefetch", 1),
              number(options, "messages", 10_000));
      case "bench-late" -> Bench.late(client, topic, number(options, "messages", 1000));
      case "payloads" -> Payloads.run(client, topic);
      case "hard" -> Hard.run(client, topic);
      case "unit" -> {
        Hard.leasing();
        Faults.run();
        InMemory.run();
        print("ok");
      }
      default -> {
        System.err.println("steps, publish N TOPIC, echo, work, lose, bench-work, bench-late, payloads, hard or unit");
        System.exit(2);
      }
    }
  }

  private static final PrintStream OUT = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);

  /** A line, in UTF-8 whatever the locale, that is out when this returns. */
  static synchronized void print(String line) {
    OUT.print(line + "\n");
    OUT.flush();
  }

  private static int number(Map<String, String> options, String name, int otherwise) {
    String value = options.get(name);
    return value == null ? otherwise : Integer.parseInt(value);
  }
}

import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Semaphore;

/** A server that answers as a test says. */
final class Fake implements AutoCloseable {
  /** Says what is answered, by {@link #answer}, or {@link #HANG} or {@link #CUT}. */
  interface Script {
    String to(int number, Request request);
  }

  record Request(String line, String head, String body) {}

  /** Nothing more is answered; the connection stays open. */
  static final String HANG = "hang";

  /** The connection is closed. */
  static final String CUT = "cut";

  final List<Request> requests = new CopyOnWriteArrayList<>();

  /** A permit for every connection that the client closed while it waited for an answer. */
  final Semaphore left = new Semaphore(0);
  private final ServerSocket listener;
  private final Script script;

  Fake(Script script) throws IOException {
    this.script = script;
    listener = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"));
    start(this::listen);
  }

  String url() {
    return "http://127.0.0.1:" + listener.getLocalPort();
  }

  static String answer(int status, String body, String... headers) {
    String more = headers.length == 0 ? "" : String.join("\r\n", headers) + "\r\n";
    return "HTTP/1.1 " + status + " X\r\n" + more + "Content-Length: " + body.length() + "\r\n\r\n" + body;
  }

  static String problem(int status, String code, String... headers) {
    return answer(status, "{\"code\": \"" + code + "\", \"detail\": \"no\", \"request_id\": \"1\"}", headers);
  }

  static String published() {
    return answer(
        201,
        "{\"id\": \"00000000-0000-0000-0000-000000000001\", \"topic\": \"t\", \"state\": \"ready\", \"duplicate\": false,"
            + " \"published_at\": \"2026-01-01T00:00:00.000Z\"}");
  }

  private void listen() {
    try {
      while (true) {
        Socket socket = listener.accept();
        start(() -> serve(socket));
      }
    } catch (IOException closed) {
      // The test is over.
    }
  }

  private void serve(Socket socket) {
    try (socket) {
      InputStream in = new BufferedInputStream(socket.getInputStream());
      OutputStream out = socket.getOutputStream();
      Request request;
      while ((request = read(in)) != null) {
        String answer;
        synchronized (this) {
          requests.add(request);
          answer = script.to(requests.size(), request);
        }
        if (answer.equals(CUT)) {
          return;
        }
        if (!answer.equals(HANG)) {
          out.write(answer.replace(HANG, "").getBytes(StandardCharsets.UTF_8));
          out.flush();
        }
        if (answer.endsWith(HANG)) {
          try {
            in.read();
          } finally { // also when the connection was reset
            left.release();
          }
          return;
        }
      }
    } catch (IOException gone) {
      // So is the client.
    }
  }

  private static Request read(InputStream in) throws IOException {
    StringBuilder head = new StringBuilder();
    while (head.indexOf("\r\n\r\n") < 0) {
      int read = in.read();
      if (read < 0) {
        return null;
      }
      head.append((char) read);
    }
    String lower = head.toString().toLowerCase(Locale.ROOT);
    int at = lower.indexOf("content-length: ");
    int length = at < 0 ? 0 : Integer.parseInt(lower.substring(at + 16, lower.indexOf('\r', at)));
    String body = new String(in.readNBytes(length), StandardCharsets.UTF_8);
    return new Request(head.substring(0, head.indexOf("\r")), head.toString(), body);
  }

  private static void start(Runnable task) {
    Thread thread = new Thread(task);
    thread.setDaemon(true);
    thread.start();
  }

  @Override
  public void close() {
    try {
      listener.close();
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}

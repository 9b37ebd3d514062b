package dev.dueq;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.ExecutorService;

/**
 * Leases the messages of a topic, or of several, and calls a handler with each.
 *
 * <p>It acknowledges what was handled (the acks ride on the next lease request), extends leases while handlers run, gives back what
 * failed, goes on by itself after the server was away, and stops gracefully. No message is lost, and none is acknowledged that was
 * not handled, whatever is killed when; a message may be handled more than once.
 */
public final class Worker implements AutoCloseable {
  private final Engine engine;

  private Worker(Builder builder) {
    engine = new Engine(builder);
  }

  /**
   * Begins to describe a worker.
   *
   * @param client where the messages are
   * @param topic whose messages
   * @param handler called with each, on several threads at once
   */
  public static Builder builder(Client client, String topic, Handler handler) {
    return builder(client, List.of(Objects.requireNonNull(topic, "a worker needs a topic")), handler);
  }

  /**
   * Begins to describe a worker of several topics.
   *
   * @param client where the messages are
   * @param topics whose messages, 1 to 32 of them: what the first has goes before what the second has, and so on
   * @param handler called with each, on several threads at once
   */
  public static Builder builder(Client client, List<String> topics, Handler handler) {
    return new Builder(client, topics, handler);
  }

  /**
   * Works until {@link #stop()}, {@link #close()}, or an interrupt of this thread, or {@linkplain Builder#untilEmpty until nothing
   * is due}, then stops gracefully and returns; at once if it was closed already. May be called once.
   *
   * @throws ProblemException when the server refuses in a way that repeating does not mend, such as a wrong key
   */
  public void run() {
    engine.run();
  }

  /**
   * Works as {@link #run()} does, on a thread of its own, and returns at once. What {@code run()} throws goes to that thread's
   * handler of uncaught exceptions. May be called once, and not with {@code run()}.
   *
   * @return this worker
   */
  public Worker start() {
    new Thread(engine::run, "dueq-worker").start();
    return this;
  }

  /** Begins a graceful stop and returns at once; {@link #run()} returns when all is settled. */
  public void stop() {
    engine.stop();
  }

  /** Stops gracefully and waits until {@link #run()} has returned. */
  @Override
  public void close() {
    engine.stop();
    engine.awaitEnd();
  }

  /** What a worker is to be. */
  public static final class Builder {
    final Client client;
    final List<String> topics;
    private final Handler handler;
    private final List<Middleware> middleware = new ArrayList<>();
    int concurrency = 10;
    int prefetch = 1;
    Long leaseMs;
    long waitMs = 20_000;
    Duration stopTimeout = Duration.ofSeconds(30);
    Hooks hooks = new Hooks() {};
    ExecutorService executor;
    boolean stopOnShutdown;
    boolean untilEmpty;

    private Builder(Client client, List<String> topics, Handler handler) {
      this.client = Objects.requireNonNull(client, "a worker needs a client");
      this.topics = List.copyOf(topics);
      if (topics.isEmpty()) {
        throw new IllegalArgumentException("a worker needs a topic");
      }
      this.handler = Objects.requireNonNull(handler, "a worker needs a handler");
    }

    /** How many handlers run at once; 10 unless given. */
    public Builder concurrency(int handlers) {
      concurrency = within("concurrency", handlers, 1, 100_000);
      return this;
    }

    /**
     * How many messages may wait here for a handler, 1 to 1000. 1, which holds unless given, means none: a request leases for free
     * handlers only. More makes short handlers faster.
     */
    public Builder prefetch(int messages) {
      prefetch = within("prefetch", messages, 1, 1000);
      return this;
    }

    /** How long a lease lasts before it is extended, in milliseconds, 1000 to 43200000; the topic's unless given. */
    public Builder leaseMs(long ms) {
      leaseMs = (long) within("leaseMs", ms, 1000, 43_200_000);
      return this;
    }

    /**
     * How long a lease request waits for messages, in milliseconds, 0 to 60000; 20000 unless given. Keep it 5 s below every
     * time-out on the way.
     */
    public Builder waitMs(long ms) {
      waitMs = within("waitMs", ms, 0, 60_000);
      return this;
    }

    /** How long a stop waits for running handlers before it interrupts them and gives their messages back; 30 s unless given. */
    public Builder stopTimeout(Duration timeout) {
      stopTimeout = Objects.requireNonNull(timeout);
      return this;
    }

    /** What is done around the handler; the first is outermost, and what is given later is further in. */
    public Builder middleware(Middleware... around) {
      middleware.addAll(List.of(around));
      return this;
    }

    /** What is told for logs and metrics; what it does not override is logged, as {@link Hooks} says. */
    public Builder hooks(Hooks told) {
      hooks = Objects.requireNonNull(told);
      return this;
    }

    /**
     * Where handlers run; unless given a virtual thread each where the JDK has them (21 and later), else a pool of as many threads
     * as handlers. It has to run {@code concurrency} tasks at once, and the worker does not shut it down.
     */
    public Builder executor(ExecutorService handlers) {
      executor = Objects.requireNonNull(handlers);
      return this;
    }

    /** Whether Ctrl-C and SIGTERM stop it gracefully before the process ends; false unless given. */
    public Builder stopOnShutdown(boolean stop) {
      stopOnShutdown = stop;
      return this;
    }

    /**
     * Whether it stops by itself when no message is due and no handler runs: for tests, and for jobs that a timer starts; false
     * unless given. It then waits for no messages, whatever {@link #waitMs} says.
     */
    public Builder untilEmpty(boolean stop) {
      untilEmpty = stop;
      return this;
    }

    /**
     * The worker; it does nothing until it is run.
     *
     * @throws IllegalArgumentException from each of the above when a number is out of its range
     * @throws IllegalStateException when the client was closed
     */
    public Worker build() {
      client.requireOpen();
      return new Worker(this);
    }

    /** How long a lease request waits. */
    long leaseWaitMs() {
      return untilEmpty ? 0 : waitMs;
    }

    /** The handler with the middleware around it. */
    Handler handler() {
      Handler wrapped = handler;
      for (int i = middleware.size() - 1; i >= 0; i--) {
        Middleware outer = middleware.get(i);
        Handler inner = wrapped;
        wrapped = (message, lease) -> outer.handle(message, lease, inner);
      }
      return wrapped;
    }

    private static int within(String name, long value, long least, long most) {
      if (value < least || value > most) {
        throw new IllegalArgumentException(name + " is " + value + ", not " + least + " to " + most);
      }
      return (int) value;
    }
  }
}

package dev.dueq;

import dev.dueq.api.MessagesApi;
import dev.dueq.model.Message;
import dev.dueq.model.UpdateMessageRequest;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.Objects;
import java.util.Optional;

/** A key in a topic, and the live message (delayed, ready or leased) that has it, if there is one. See {@link Client#key}. */
public final class MessageKey {
  private final MessagesApi messages;
  private final String topic;
  private final String key;

  MessageKey(MessagesApi messages, String topic, String key) {
    this.messages = messages;
    this.topic = Objects.requireNonNull(topic, "topic");
    this.key = Objects.requireNonNull(key, "key");
  }

  /** The message; empty when there is none. */
  public Optional<Message> get() {
    return Manage.found(() -> messages.getMessageByKey(topic, key));
  }

  /**
   * Deletes the message.
   *
   * @return false when there is none
   * @throws ProblemException with the code {@code message_leased} while it is being handled
   */
  public boolean cancel() {
    return Manage.done(() -> messages.deleteMessageByKey(topic, key, null));
  }

  /**
   * Makes the message due so long from now.
   *
   * @return false when there is none
   * @throws ProblemException with the code {@code message_leased} while it is being handled
   */
  public boolean reschedule(Duration delay) {
    return update(new UpdateMessageRequest().delayMs(MessageOptions.milliseconds("delay", delay)));
  }

  /**
   * Makes the message due at this instant; one in the past means now.
   *
   * @return false when there is none
   * @throws ProblemException with the code {@code message_leased} while it is being handled
   */
  public boolean reschedule(Instant due) {
    return update(new UpdateMessageRequest().deliverAt(due.atOffset(ZoneOffset.UTC)));
  }

  private boolean update(UpdateMessageRequest change) {
    return Manage.found(() -> messages.updateMessageByKey(topic, key, change)).isPresent();
  }
}

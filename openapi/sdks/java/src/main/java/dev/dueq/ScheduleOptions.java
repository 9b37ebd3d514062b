package dev.dueq;

import dev.dueq.model.CallbackRequest;
import dev.dueq.model.CatchUp;
import dev.dueq.model.PutScheduleRequest;
import dev.dueq.model.ScheduledMessageRequest;
import java.time.Duration;

/** When and where {@link Client#putSchedule} publishes: by {@link #cron} or {@link #every}, to {@link #topic} or {@link #callback}. */
public final class ScheduleOptions {
  private final PutScheduleRequest request = new PutScheduleRequest();

  ScheduleOptions() {}

  /** The topic that the messages go to. */
  public ScheduleOptions topic(String name) {
    request.setTopic(name);
    return this;
  }

  /** The URL that the messages are sent to. */
  public ScheduleOptions callback(CallbackRequest to) {
    request.setCallback(to);
    return this;
  }

  /** When, such as {@code 0 9 * * MON-FRI}; in UTC unless {@link #timezone} is given. */
  public ScheduleOptions cron(String expression) {
    request.setCron(expression);
    return this;
  }

  /** The IANA time zone of {@link #cron}, such as {@code Europe/Berlin}. */
  public ScheduleOptions timezone(String name) {
    request.setTimezone(name);
    return this;
  }

  /** The time between two messages, a second or more. */
  public ScheduleOptions every(Duration time) {
    request.setEveryMs(MessageOptions.milliseconds("every", time));
    return this;
  }

  /** Which ticks that were missed are made up for; the latest unless given. */
  public ScheduleOptions catchUp(CatchUp which) {
    request.setCatchUp(which);
    return this;
  }

  PutScheduleRequest request(ScheduledMessageRequest message) {
    return request.message(message);
  }
}

package dev.dueq;

import dev.dueq.Pages.Page;
import dev.dueq.model.Group;
import dev.dueq.model.GroupList;
import dev.dueq.model.PutGroupRequest;
import dev.dueq.model.PutTopicRequest;
import dev.dueq.model.Schedule;
import dev.dueq.model.ScheduleList;
import dev.dueq.model.Topic;
import dev.dueq.model.TopicItem;
import dev.dueq.model.TopicList;
import dev.dueq.model.UpdateTopicRequest;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.function.Supplier;

/** The methods for schedules, topics and groups; {@link Client} has those for messages. */
abstract class Manage implements Api {
  Manage() {}

  /** Every route, by the name that the other languages have for it: {@code client.api().topics()} is {@code client.topics()}. */
  public Api api() {
    return this;
  }

  /**
   * Publishes a message again and again: creates the schedule of this name, or replaces it. {@code client.putSchedule("report",
   * "daily", with -> with.topic("reports").cron("0 9 * * MON-FRI").timezone("Europe/Berlin"))}
   *
   * @param message the payload, as {@link Client#publish(String, Object)} takes it; a {@link Publish} is a payload with options,
   *     but for those that say when
   * @param options when, and where
   * @throws IllegalArgumentException when the message has an option that a schedule decides
   */
  public Schedule putSchedule(String name, Object message, Consumer<ScheduleOptions> options) {
    ScheduleOptions with = new ScheduleOptions();
    options.accept(with);
    return schedules().putSchedule(name, with.request(Publish.of(message).tick()));
  }

  /** The schedule: what it publishes, its next tick, how the last one went; empty when there is none. */
  public Optional<Schedule> getSchedule(String name) {
    return found(() -> schedules().getSchedule(name));
  }

  /** All schedules, by name. */
  public Pages<Schedule> listSchedules() {
    return new Pages<>(
        cursor -> {
          ScheduleList list = schedules().listSchedules(null, cursor);
          return new Page<>(list.getItems(), list.getNextCursor());
        });
  }

  /** Stops the ticks of a schedule until {@link #resumeSchedule}. */
  public Schedule pauseSchedule(String name) {
    return schedules().pauseSchedule(name);
  }

  /** Has a paused schedule tick again. */
  public Schedule resumeSchedule(String name) {
    return schedules().resumeSchedule(name);
  }

  /** Publishes the message of a schedule now, in addition to its ticks. */
  public Schedule triggerSchedule(String name) {
    return schedules().triggerSchedule(name);
  }

  /**
   * Deletes a schedule. What it has published stays.
   *
   * @return false when there is none
   */
  public boolean deleteSchedule(String name) {
    return done(() -> schedules().deleteSchedule(name));
  }

  /** All topics, by name. */
  public Pages<TopicItem> listTopics() {
    return listTopics(null);
  }

  /** The topics whose names begin so, by name. */
  public Pages<TopicItem> listTopics(String prefix) {
    return new Pages<>(
        cursor -> {
          TopicList list = topics().listTopics(prefix, null, cursor);
          return new Page<>(list.getItems(), list.getNextCursor());
        });
  }

  /** Creates a topic, or replaces its settings as a whole: what is not set takes its default. */
  public Topic putTopic(String topic, PutTopicRequest settings) {
    return topics().putTopic(topic, settings, null);
  }

  /** Changes the settings that are set, and leaves the others; null resets one to its default. */
  public Topic updateTopic(String topic, UpdateTopicRequest settings) {
    return topics().updateTopic(topic, settings, null);
  }

  /** The settings and counts of a topic; empty when there is none. */
  public Optional<Topic> getTopic(String topic) {
    return found(() -> topics().getTopic(topic));
  }

  /** Has nothing leased from a topic, and nothing sent, until {@link #resumeTopic}. Publishing goes on. */
  public Topic pauseTopic(String topic) {
    return topics().pauseTopic(topic);
  }

  /** Ends the pause of a topic. */
  public Topic resumeTopic(String topic) {
    return topics().resumeTopic(topic);
  }

  /**
   * Deletes an empty topic.
   *
   * @return false when there is none
   */
  public boolean deleteTopic(String topic) {
    return deleteTopic(topic, false);
  }

  /**
   * Deletes a topic.
   *
   * @param force with its messages, if it has any
   * @return false when there is none
   */
  public boolean deleteTopic(String topic, boolean force) {
    return done(() -> topics().deleteTopic(topic, force));
  }

  /** Gives one group of a topic limits of its own, in place of the topic's. */
  public Group putGroup(String topic, String group, PutGroupRequest limits) {
    return topics().putGroup(topic, group, limits, null);
  }

  /** The limits of a group, and how many of its messages wait: zeros when there are none. */
  public Group getGroup(String topic, String group) {
    return topics().getGroup(topic, group, null);
  }

  /** The groups of a topic that have messages or limits of their own. */
  public Pages<Group> listGroups(String topic) {
    return new Pages<>(
        cursor -> {
          GroupList list = topics().listGroups(topic, null, cursor);
          return new Page<>(list.getItems(), list.getNextCursor());
        });
  }

  /** Has nothing of a group leased, until {@link #resumeGroup}. */
  public Group pauseGroup(String topic, String group) {
    return topics().pauseGroup(topic, group, null);
  }

  /** Ends the pause of a group. */
  public Group resumeGroup(String topic, String group) {
    return topics().resumeGroup(topic, group, null);
  }

  /** Gives a group the topic's limits again. Its messages stay. */
  public void deleteGroup(String topic, String group) {
    topics().deleteGroup(topic, group, null);
  }

  /** The answer; empty where what was asked for is not there. */
  static <T> Optional<T> found(Supplier<T> request) {
    try {
      return Optional.of(request.get());
    } catch (ProblemException problem) {
      return switch (problem.code()) {
        case "message_not_found", "topic_not_found", "schedule_not_found" -> Optional.empty();
        default -> throw problem;
      };
    }
  }

  /** Deletes it; false where it is not there. */
  static boolean done(Runnable deletion) {
    return found(
            () -> {
              deletion.run();
              return true;
            })
        .isPresent();
  }
}

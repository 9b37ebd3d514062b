import dev.dueq.Client;
import dev.dueq.Publish;
import dev.dueq.api.MessagesApi.APIGetMessageRequest;
import dev.dueq.model.*;
import java.time.Duration;
import java.util.List;
import java.util.Map;

/** The steps of tests/sdk/steps.md through the methods of the client itself. */
final class OwnSteps {
  private static final String GROUP = "customer-7";

  /** Prints a step: its name, and its members one after another. */
  interface Print {
    void step(String name, Object... members);
  }

  private final Client client;
  private final String topic;
  private final String own;
  private final Print print;

  OwnSteps(Client client, String topic, Print print) {
    this.client = client;
    this.topic = topic;
    this.own = topic + "-own";
    this.print = print;
  }

  void into(Map<String, Runnable> steps) {
    steps.put("put_schedule", this::putSchedule);
    steps.put("run_schedule", this::runSchedule);
    steps.put("delete_schedule", this::deleteSchedule);
    steps.put("put_topic", this::putTopic);
    steps.put("put_group", this::putGroup);
    steps.put("delete_topic", this::deleteTopic);
    steps.put("dead_letters", this::deadLetters);
  }

  private void putSchedule() {
    var daily = new Publish("daily").priority(7).header("source", "sdk");
    client.putSchedule(topic, daily, with -> with.topic(topic + "-ticks").cron("0 9 * * MON-FRI").timezone("Europe/Berlin"));
    Schedule schedule = client.getSchedule(topic).orElseThrow();
    print.step(
        "put_schedule",
        "topic", schedule.getTopic().replace(topic, "T"),
        "cron", schedule.getCron(),
        "timezone", schedule.getTimezone(),
        "payload", schedule.getMessage().getPayload(),
        "priority", schedule.getMessage().getPriority(),
        "headers", schedule.getMessage().getHeaders());
  }

  private void runSchedule() {
    boolean listed = client.listSchedules().stream().anyMatch(schedule -> schedule.getName().equals(topic));
    Boolean paused = client.pauseSchedule(topic).getPaused();
    Boolean resumed = client.resumeSchedule(topic).getPaused();
    client.triggerSchedule(topic);
    boolean published = client.getSchedule(topic).orElseThrow().getLastMessageId() != null;
    print.step("run_schedule", "listed", listed, "paused", List.of(paused, resumed), "published", published);
  }

  private void deleteSchedule() {
    var deleted = List.of(client.deleteSchedule(topic), client.deleteSchedule(topic));
    print.step("delete_schedule", "deleted", deleted, "there", client.getSchedule(topic).isPresent());
  }

  private void putTopic() {
    client.putTopic(own, new PutTopicRequest().maxAttempts(3L).groupOrder(GroupOrder.FAIR));
    client.updateTopic(own, new UpdateTopicRequest().leaseMs(45_000L));
    var paused = List.of(client.pauseTopic(own).getPaused(), client.resumeTopic(own).getPaused());
    var names = client.listTopics(own).stream().map(item -> item.getName().replace(topic, "T")).toList();
    TopicConfig config = client.getTopic(own).orElseThrow().getConfig();
    print.step(
        "put_topic", "names", names, "paused", paused, "max_attempts", config.getMaxAttempts(), "lease_ms", config.getLeaseMs());
  }

  private void putGroup() {
    client.putGroup(own, GROUP, new PutGroupRequest().concurrency(5L));
    var paused = List.of(client.pauseGroup(own, GROUP).getPaused(), client.resumeGroup(own, GROUP).getPaused());
    List<Group> groups = client.listGroups(own).stream().toList();
    client.deleteGroup(own, GROUP);
    print.step(
        "put_group",
        "groups", groups.stream().map(Group::getGroup).toList(),
        "concurrency", groups.get(0).getConcurrency(),
        "paused", paused,
        "limited", client.getGroup(own, GROUP).getConcurrency() != null);
  }

  private void deleteTopic() {
    var deleted = List.of(client.deleteTopic(own, true), client.deleteTopic(own));
    print.step("delete_topic", "deleted", deleted, "there", client.getTopic(own).isPresent());
  }

  private void deadLetters() {
    String name = topic + "-dead";
    for (String payload : List.of("first", "second", "third")) {
      client.publish(name, payload);
      LeasedMessage poison = client.leases().leaseMessages(name, new LeaseRequest()).getMessages().get(0);
      client.leases().nackMessage(poison.getId(), new NackRequest().leaseToken(poison.getLeaseToken()).dead(true));
    }
    List<Message> dead = client.dead(name).stream().toList();
    long redriven = client.redrive(name, 2, Duration.ofHours(1));
    client.redriveMessage(dead.get(2).getId());
    var states =
        dead.stream()
            .map(message -> client.messages().getMessage(APIGetMessageRequest.newBuilder().id(message.getId()).build()).getState())
            .toList();
    print.step(
        "dead_letters", "payloads", dead.stream().map(Message::getPayload).toList(), "redriven", redriven, "states", states);
  }
}

import dev.dueq.Client;
import dev.dueq.model.AckRequest;
import dev.dueq.model.LeaseRequest;
import dev.dueq.model.LeasedMessage;
import dev.dueq.model.PublishRequest;
import java.util.List;

/** Publishes again what the typed client leased: payloads must come through it as they were. */
final class Echo {
  private Echo() {}

  static void run(Client client, String from, String to) {
    while (true) {
      List<LeasedMessage> leased =
          client.leases().leaseMessages(from, new LeaseRequest().maxMessages(100L)).getMessages();
      if (leased.isEmpty()) {
        return;
      }
      for (LeasedMessage message : leased) {
        client.publish(to, new PublishRequest().payload(message.getPayload()).headers(message.getHeaders()));
        client.leases().ackMessage(message.getId(), new AckRequest().leaseToken(message.getLeaseToken()));
      }
    }
  }
}

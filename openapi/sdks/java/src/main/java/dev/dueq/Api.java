package dev.dueq;

import dev.dueq.api.CallbacksApi;
import dev.dueq.api.LeasesApi;
import dev.dueq.api.MessagesApi;
import dev.dueq.api.SchedulesApi;
import dev.dueq.api.ServiceApi;
import dev.dueq.api.TopicsApi;

/** Every route of the server, as generated from its OpenAPI document; {@link Client#api} is one. */
public interface Api {
  /** Every route about messages. */
  MessagesApi messages();

  /** Lease, ack, nack and extend; a {@link Worker} does this for you. */
  LeasesApi leases();

  /** Every route about topics: configure, list, pause, purge. */
  TopicsApi topics();

  /** Every route about callbacks and the hosts that are called. */
  CallbacksApi callbacks();

  /** Every route about schedules. */
  SchedulesApi schedules();

  /** Health, readiness, metrics; never repeated. */
  ServiceApi service();
}

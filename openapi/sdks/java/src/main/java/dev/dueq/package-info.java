/**
 * The client of dueq, a delay queue over HTTP, and a worker that handles a topic's messages.
 *
 * <p>{@link dev.dueq.Client} reaches the generated routes ({@code dev.dueq.api}) and models ({@code dev.dueq.model}); {@link
 * dev.dueq.Worker} leases messages and calls a {@link dev.dueq.Handler} with each.
 */
package dev.dueq;

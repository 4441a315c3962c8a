package dev.leasehold.client.internal.runs;

import dev.leasehold.client.internal.connect.ClientContext;
import dev.leasehold.client.internal.connect.EventStream;
import dev.leasehold.v1.DefinitionInForce;
import dev.leasehold.v1.SubscribeScheduleRequest;
import dev.leasehold.v1.SubscribeScheduleResponse;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/** What the streams of one run have in common. */
final class RunCourse {
  private final ClientContext context;
  private final SubscribeScheduleRequest subscription;
  private final String runId;
  private final Consumer<DefinitionInForce> definitions;
  private final CompletableFuture<
          Optional<EventStream<SubscribeScheduleRequest, SubscribeScheduleResponse>>>
      back = new CompletableFuture<>();
  private volatile Duration draining;

  /** {@code definitions} hears of other definitions while the run goes on. */
  RunCourse(
      ClientContext context,
      SubscribeScheduleRequest subscription,
      String runId,
      Consumer<DefinitionInForce> definitions) {
    this.context = context;
    this.subscription = subscription;
    this.runId = runId;
    this.definitions = definitions;
  }

  ClientContext context() {
    return context;
  }

  SubscribeScheduleRequest subscription() {
    return subscription;
  }

  String runId() {
    return runId;
  }

  void tell(DefinitionInForce definition) {
    definitions.accept(definition);
  }

  /** The sidecar shuts down, and still waits for so long. */
  void drain(Duration timeLeft) {
    draining = timeLeft;
  }

  boolean isDraining() {
    return draining != null;
  }

  /** Completed once, when the run is over: with the stream, if that goes on to the next run. */
  CompletableFuture<Optional<EventStream<SubscribeScheduleRequest, SubscribeScheduleResponse>>>
      back() {
    return back;
  }
}

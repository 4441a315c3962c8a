package dev.leasehold.client.internal.hold;

import dev.leasehold.client.internal.connect.Calls;
import dev.leasehold.client.internal.connect.ClientContext;
import dev.leasehold.client.internal.connect.EventStream;
import dev.leasehold.client.internal.connect.EventStream.Signal;
import dev.leasehold.client.internal.errors.Needs;
import dev.leasehold.v1.HoldLeaseRequest;
import dev.leasehold.v1.HoldLeaseResponse;
import dev.leasehold.v1.Resume;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/** A HoldLease call, which is of one hold and ends with it. */
final class HoldLeaseLine extends LifeLine {
  private final ClientContext context;
  private final EventStream<HoldLeaseRequest, HoldLeaseResponse> stream;

  private HoldLeaseLine(
      ClientContext context, EventStream<HoldLeaseRequest, HoldLeaseResponse> stream) {
    super(stream);
    this.context = context;
    this.stream = stream;
  }

  /** Sends {@code request}, without a deadline. */
  static HoldLeaseLine open(ClientContext context, HoldLeaseRequest request) {
    EventStream.Method<HoldLeaseRequest, HoldLeaseResponse> method =
        (connection, message, observer) -> connection.streams().holdLease(message, observer);
    HoldLeaseRequest message = request.toBuilder().setNeeds(Needs.of(request)).build();
    return new HoldLeaseLine(context, EventStream.open(context, method, message));
  }

  @Override
  public void read(Consumer<Signal<HoldLeaseResponse>> reader) {
    stream.read(reader);
  }

  /** Short calls about a hold that was just granted. */
  Calls calls() {
    return stream.calls(context);
  }

  @Override
  public HoldLeaseLine resume(Resume resume) {
    return open(context, HoldLeaseRequest.newBuilder().setResume(resume).build());
  }

  @Override
  public CompletableFuture<?> giveUp(Calls calls, String leaseId, long generation) {
    return calls.release(leaseId, generation, Ending.PLAIN, context.limits().release());
  }

  @Override
  public void over(boolean isLost) {
    stream.cancel();
  }
}

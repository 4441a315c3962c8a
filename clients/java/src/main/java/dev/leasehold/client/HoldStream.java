package dev.leasehold.client;

import dev.leasehold.v1.HoldLeaseRequest;
import dev.leasehold.v1.HoldLeaseResponse;
import io.grpc.Status;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import java.util.ArrayDeque;
import java.util.Optional;
import java.util.Queue;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * One HoldLease call: its messages and its end, in their order and one at a time, for whoever reads
 * at the time. They are kept while nobody does.
 */
final class HoldStream {
  /** What a stream brings: a message, or its end. */
  sealed interface Signal {
    /** A message of the sidecar's. */
    record Message(HoldLeaseResponse response) implements Signal {}

    /** The end; never tells that a lock is held. */
    record End(Supplier<RefusedException> told) implements Signal {
      /** Made when it is asked for: nobody asks how the stream of a released hold has ended. */
      RefusedException why() {
        return told.get();
      }
    }
  }

  private static final Status SILENT =
      Status.UNAVAILABLE.withDescription("the sidecar ended the stream without a word");

  private final Queue<Signal> pending = new ArrayDeque<>();
  private Optional<Consumer<Signal>> reader = Optional.empty();
  private boolean handingOver;
  private boolean cancelled;
  private ClientCallStreamObserver<HoldLeaseRequest> call;

  /** Null where there was no connection to be on. */
  private Connections.Place place;

  /** Sends {@code request}, without a deadline. */
  static HoldStream open(ClientContext context, HoldLeaseRequest request) {
    HoldStream stream = new HoldStream();
    try {
      stream.place = context.place();
      Calls.detached(
          () -> {
            stream.place.connection().streams().holdLease(request, stream.new Observer());
            return stream;
          });
    } catch (RuntimeException refused) {
      stream.leavePlace();
      stream.receive(new Signal.End(() -> RefusedException.of(refused)));
    }
    return stream;
  }

  /** Lets no more streams onto this one's connection, which has gone silent. */
  void retireConnection() {
    if (place != null) {
      place.retireConnection();
    }
  }

  private void leavePlace() {
    if (place != null) {
      place.close();
    }
  }

  /** Hands everything over to {@code newReader} from now on, starting with what was kept. */
  void read(Consumer<Signal> newReader) {
    synchronized (this) {
      reader = Optional.of(newReader);
    }
    handOver();
  }

  /** Keeps what comes until the next {@link #read}. */
  synchronized void pause() {
    reader = Optional.empty();
  }

  /**
   * Ends the call, which tells the sidecar that the hold is over (S14): the hold must have ended
   * before (S13).
   */
  void cancel() {
    ClientCallStreamObserver<HoldLeaseRequest> started;
    synchronized (this) {
      cancelled = true;
      reader = Optional.empty();
      pending.clear();
      started = call;
    }
    if (started != null) {
      started.cancel("the hold is over", null);
    }
  }

  private void receive(Signal signal) {
    synchronized (this) {
      if (cancelled) {
        return;
      }
      pending.add(signal);
    }
    handOver();
  }

  private void handOver() {
    synchronized (this) {
      if (handingOver) {
        return;
      }
      handingOver = true;
    }
    while (true) {
      Consumer<Signal> to;
      Signal signal;
      synchronized (this) {
        if (reader.isEmpty() || pending.isEmpty()) {
          handingOver = false;
          return;
        }
        to = reader.get();
        signal = pending.remove();
      }
      to.accept(signal);
    }
  }

  private final class Observer
      implements ClientResponseObserver<HoldLeaseRequest, HoldLeaseResponse> {
    @Override
    public void beforeStart(ClientCallStreamObserver<HoldLeaseRequest> starting) {
      synchronized (HoldStream.this) {
        call = starting;
      }
    }

    @Override
    public void onNext(HoldLeaseResponse response) {
      receive(new Signal.Message(response));
    }

    @Override
    public void onError(Throwable error) {
      leavePlace();
      receive(new Signal.End(() -> RefusedException.of(error)));
    }

    @Override
    public void onCompleted() {
      leavePlace();
      receive(new Signal.End(() -> RefusedException.of(SILENT.asRuntimeException())));
    }
  }
}

package dev.leasehold.client.internal.connect;

import dev.leasehold.client.RefusedException;
import dev.leasehold.client.internal.errors.Refusals;
import io.grpc.Status;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import io.grpc.stub.StreamObserver;
import java.util.ArrayDeque;
import java.util.Optional;
import java.util.Queue;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * One call that a hold lives by, HoldLease or SubscribeSchedule: its messages and its end, in their
 * order and one at a time, for whoever reads at the time. They are kept while nobody does.
 *
 * @param <Q> the request
 * @param <A> the messages
 */
public final class EventStream<Q, A> {
  /**
   * What a stream brings: a message, or its end.
   *
   * @param <A> the messages
   */
  public sealed interface Signal<A> {
    /** A message of the sidecar's. */
    record Message<A>(A response) implements Signal<A> {}

    /** The end; never tells that a lock is held. */
    record End<A>(Supplier<RefusedException> told) implements Signal<A> {
      /** Made when it is asked for: nobody asks how the stream of a released hold has ended. */
      public RefusedException why() {
        return told.get();
      }
    }
  }

  /**
   * Starts a call.
   *
   * @param <Q> the request
   * @param <A> the messages
   */
  @FunctionalInterface
  public interface Method<Q, A> {
    /** Starts it on {@code connection}. */
    void start(Connection connection, Q request, StreamObserver<A> observer);
  }

  private static final Status SILENT =
      Status.UNAVAILABLE.withDescription("the sidecar ended the stream without a reason");

  private final Queue<Signal<A>> pending = new ArrayDeque<>();
  private Optional<Consumer<Signal<A>>> reader = Optional.empty();
  private boolean handingOver;
  private boolean cancelled;
  private boolean ended;
  private ClientCallStreamObserver<Q> call;

  /** Null where there was no connection to be on. */
  private Connections.Place place;

  /** Sends {@code request}, without a deadline. */
  public static <Q, A> EventStream<Q, A> open(
      ClientContext context, Method<Q, A> method, Q request) {
    EventStream<Q, A> stream = new EventStream<>();
    try {
      stream.place = context.place();
      Calls.detached(
          () -> {
            method.start(stream.place.connection(), request, stream.new Observer());
            return stream;
          });
    } catch (RuntimeException refused) {
      stream.end(() -> RefusedException.of(refused));
    }
    return stream;
  }

  /** Short calls about what this stream has brought. */
  public Calls calls(ClientContext context) {
    return context.callsBeside(place);
  }

  /** A place for the hold that this stream has brought. */
  public Connections.Place beside() {
    return place.beside();
  }

  /** Lets no more streams onto this one's connection. */
  public void retireConnection() {
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
  public void read(Consumer<Signal<A>> newReader) {
    synchronized (this) {
      reader = Optional.of(newReader);
    }
    handOver();
  }

  /** Keeps what comes until the next {@link #read}. */
  public synchronized void pause() {
    reader = Optional.empty();
  }

  /**
   * Ends the call, which tells the sidecar that the hold is over (S14): the hold must have ended
   * before (S13).
   */
  public void cancel() {
    ClientCallStreamObserver<Q> started;
    boolean over;
    synchronized (this) {
      cancelled = true;
      reader = Optional.empty();
      pending.clear();
      started = call;
      over = ended;
    }
    if (over) {
      leavePlace();
    } else if (started != null) {
      started.cancel("the hold is over", null);
    }
  }

  /** The place is given back when this was read: what came before it may be a hold. */
  private void end(Supplier<RefusedException> why) {
    boolean unread;
    synchronized (this) {
      ended = true;
      unread = cancelled;
    }
    if (unread) {
      leavePlace();
    } else {
      receive(new Signal.End<>(why));
    }
  }

  private void receive(Signal<A> signal) {
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
      Consumer<Signal<A>> to;
      Signal<A> signal;
      synchronized (this) {
        if (reader.isEmpty() || pending.isEmpty()) {
          handingOver = false;
          return;
        }
        to = reader.get();
        signal = pending.remove();
      }
      to.accept(signal);
      if (signal instanceof Signal.End<A>) {
        leavePlace();
      }
    }
  }

  private final class Observer implements ClientResponseObserver<Q, A> {
    @Override
    public void beforeStart(ClientCallStreamObserver<Q> starting) {
      synchronized (EventStream.this) {
        call = starting;
      }
    }

    @Override
    public void onNext(A response) {
      receive(new Signal.Message<>(response));
    }

    @Override
    public void onError(Throwable error) {
      boolean isUnimplemented = Status.fromThrowable(error).getCode() == Status.Code.UNIMPLEMENTED;
      if (isUnimplemented && Refusals.isBelowNeeds(RefusedException.of(error))) {
        retireConnection();
      }
      end(() -> RefusedException.of(error));
    }

    @Override
    public void onCompleted() {
      end(() -> RefusedException.of(SILENT.asRuntimeException()));
    }
  }
}

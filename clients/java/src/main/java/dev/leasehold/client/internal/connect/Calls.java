package dev.leasehold.client.internal.connect;

import com.google.common.util.concurrent.FutureCallback;
import com.google.common.util.concurrent.Futures;
import com.google.common.util.concurrent.ListenableFuture;
import com.google.common.util.concurrent.MoreExecutors;
import com.google.protobuf.ByteString;
import dev.leasehold.client.Constants;
import dev.leasehold.client.LeaseholdException;
import dev.leasehold.client.ProtocolException;
import dev.leasehold.client.RefusedException;
import dev.leasehold.client.internal.clock.Durations;
import dev.leasehold.client.internal.errors.Refusals;
import dev.leasehold.client.internal.hold.Ending;
import dev.leasehold.v1.ExtendLeaseRequest;
import dev.leasehold.v1.ExtendLeaseResponse;
import dev.leasehold.v1.GetHoldRequest;
import dev.leasehold.v1.GetHoldResponse;
import dev.leasehold.v1.LeaseServiceGrpc.LeaseServiceFutureStub;
import dev.leasehold.v1.ReleaseLeaseRequest;
import dev.leasehold.v1.ReleaseLeaseResponse;
import dev.leasehold.v1.ReleaseResult;
import dev.leasehold.v1.ReportProgressRequest;
import dev.leasehold.v1.SaveCheckpointRequest;
import dev.leasehold.v1.SaveCheckpointResponse;
import dev.leasehold.v1.ScheduleServiceGrpc.ScheduleServiceFutureStub;
import dev.leasehold.v1.Validity;
import io.grpc.Context;
import io.grpc.stub.AbstractFutureStub;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.function.Supplier;

/** Unary calls as futures, and how to wait for them. */
public final class Calls {
  private final Supplier<Connections.Place> places;
  private final Executor loop;

  /** Each at one of {@code places}. {@code loop} is the connections' thread. */
  Calls(Supplier<Connections.Place> places, Executor loop) {
    this.places = places;
    this.loop = loop;
  }

  /**
   * One call. What the caller cancels, the future does. It is started on the connection's thread,
   * which is woken once that way, and sends all of it at once.
   */
  public <T> CompletableFuture<T> call(
      Duration patience, Function<LeaseServiceFutureStub, ListenableFuture<T>> method) {
    return call(Connection::calls, patience, method);
  }

  /**
   * The same about schedules. A sidecar that does not have the service says only that; this says it
   * plainly (S37).
   */
  public <T> CompletableFuture<T> callSchedules(
      Duration patience, Function<ScheduleServiceFutureStub, ListenableFuture<T>> method) {
    CompletableFuture<T> asked = call(Connection::scheduleCalls, patience, method);
    CompletableFuture<T> answer =
        asked.exceptionallyCompose(
            error -> CompletableFuture.failedFuture(Refusals.knowingSchedules(Calls.cause(error))));
    answer.whenComplete(
        (told, error) -> {
          if (answer.isCancelled()) {
            asked.cancel(true);
          }
        });
    return answer;
  }

  private <S extends AbstractFutureStub<S>, T> CompletableFuture<T> call(
      Function<Connection, S> stubs, Duration patience, Function<S, ListenableFuture<T>> method) {
    Answer<T> answer = new Answer<>();
    try {
      Connections.Place place = places.get();
      answer.whenComplete((told, error) -> place.close());
      S stub =
          stubs
              .apply(place.connection())
              .withDeadlineAfter(patience.toNanos(), TimeUnit.NANOSECONDS);
      Context context = Context.current().fork();
      loop.execute(context.wrap(() -> answer.start(() -> method.apply(stub))));
    } catch (RuntimeException refused) {
      answer.completeExceptionally(RefusedException.of(refused));
    }
    return answer;
  }

  /** The generation of a hold that is known by its lease id only. */
  public static final long UNKNOWN_GENERATION = 0;

  /** {@code generation} is the newest of the hold that was answered (S16). */
  public CompletableFuture<ReleaseResult> release(
      String leaseId, long generation, Ending ending, Duration patience) {
    ReleaseLeaseRequest.Builder request =
        ReleaseLeaseRequest.newBuilder().setLeaseId(leaseId).setGeneration(generation);
    ending.outcome().ifPresent(request::setOutcome);
    ending.checkpoint().ifPresent(request::setCheckpoint);
    ReleaseLeaseRequest message = request.build();
    return call(patience, stub -> stub.releaseLease(message)).thenApply(Calls::resultOf);
  }

  private static ReleaseResult resultOf(ReleaseLeaseResponse answer) {
    if (!answer.hasResult()) {
      throw new ProtocolException("a release was answered without a result");
    }
    return answer.getResult();
  }

  /** Reports progress of a hold; the validity that it has then. */
  public CompletableFuture<Validity> reportProgress(String leaseId, long generation) {
    ReportProgressRequest request =
        ReportProgressRequest.newBuilder().setLeaseId(leaseId).setGeneration(generation).build();
    return call(Constants.CALL_TIMEOUT, stub -> stub.reportProgress(request))
        .thenApply(answer -> told(answer.hasValidity(), answer.getValidity()));
  }

  /** Asks what the sidecar knows of a hold. */
  public CompletableFuture<GetHoldResponse> getHold(
      String leaseId, long generation, Duration patience) {
    GetHoldRequest request =
        GetHoldRequest.newBuilder().setLeaseId(leaseId).setGeneration(generation).build();
    return call(patience, stub -> stub.getHold(request))
        .thenApply(
            answer -> {
              told(answer.hasValidity(), answer.getValidity());
              return answer;
            });
  }

  /** Saves the checkpoint of a hold. */
  public CompletableFuture<SaveCheckpointResponse> saveCheckpoint(
      String leaseId, long generation, ByteString value, Duration patience) {
    SaveCheckpointRequest request =
        SaveCheckpointRequest.newBuilder()
            .setLeaseId(leaseId)
            .setGeneration(generation)
            .setValue(value)
            .build();
    return call(patience, stub -> stub.saveCheckpoint(request));
  }

  /** Sets a new end of a hold, counted from now. */
  public CompletableFuture<ExtendLeaseResponse> extend(
      String leaseId, long generation, Duration maxHold) {
    ExtendLeaseRequest request =
        ExtendLeaseRequest.newBuilder()
            .setLeaseId(leaseId)
            .setGeneration(generation)
            .setMaxHold(Durations.toWire(maxHold))
            .build();
    return call(Constants.CALL_TIMEOUT, stub -> stub.extendLease(request))
        .thenApply(
            answer -> {
              told(answer.hasValidity(), answer.getValidity());
              return answer;
            });
  }

  private static Validity told(boolean present, Validity validity) {
    if (!present) {
      throw new ProtocolException("it has no validity of the hold");
    }
    return validity;
  }

  /**
   * Starts a call outside of the caller's gRPC context: a server that holds a lock while it answers
   * a call must not end the hold's stream, or its release, with that call's deadline (S14).
   */
  public static <T> T detached(Supplier<T> start) {
    Context context = Context.current().fork();
    Context before = context.attach();
    try {
      return start.get();
    } finally {
      context.detach(before);
    }
  }

  /** Waits; gives the work up when the thread is interrupted. */
  public static <T> T await(Future<T> future) throws InterruptedException {
    try {
      return future.get();
    } catch (InterruptedException interrupted) {
      future.cancel(true);
      throw interrupted;
    } catch (ExecutionException error) {
      throw unwrapped(error);
    }
  }

  /** Waits, whatever interrupts the thread, which is told of it afterwards. */
  public static <T> T awaitUninterruptibly(Future<T> future) {
    boolean interrupted = false;
    try {
      while (true) {
        try {
          return future.get();
        } catch (InterruptedException later) {
          interrupted = true;
        }
      }
    } catch (ExecutionException error) {
      throw unwrapped(error);
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /** What happened, without what futures wrap around it. */
  public static Throwable cause(Throwable error) {
    boolean wrapped = error instanceof CompletionException || error instanceof ExecutionException;
    return wrapped && error.getCause() != null ? cause(error.getCause()) : error;
  }

  /** What a caller throws where a future has failed. */
  public static RuntimeException unwrapped(ExecutionException error) {
    Throwable cause = cause(error);
    if (cause instanceof Error grave) {
      throw grave;
    }
    if (cause instanceof LeaseholdException known) {
      // Made on another thread: the caller's own trace says which call it was.
      known.addSuppressed(new CalledFrom());
      return known;
    }
    return cause instanceof RuntimeException unexpected
        ? unexpected
        : new IllegalStateException(cause);
  }

  /** Where a call was waited for. */
  private static final class CalledFrom extends Exception {
    private static final long serialVersionUID = 1L;

    CalledFrom() {
      super("called from here");
    }
  }

  /** A future that gives its call up when it is cancelled. */
  private static final class Answer<T> extends CompletableFuture<T> {
    void start(Supplier<ListenableFuture<T>> method) {
      try {
        await(method.get());
      } catch (RuntimeException refused) {
        completeExceptionally(RefusedException.of(refused));
      }
    }

    private void await(ListenableFuture<T> call) {
      Futures.addCallback(
          call,
          new FutureCallback<T>() {
            @Override
            public void onSuccess(T result) {
              complete(result);
            }

            @Override
            public void onFailure(Throwable error) {
              completeExceptionally(RefusedException.of(error));
            }
          },
          MoreExecutors.directExecutor());
      whenComplete(
          (result, error) -> {
            if (isCancelled()) {
              call.cancel(true);
            }
          });
    }
  }
}

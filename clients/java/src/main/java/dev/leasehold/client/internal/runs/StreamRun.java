package dev.leasehold.client.internal.runs;

import com.google.protobuf.Timestamp;
import dev.leasehold.client.BootInstant;
import dev.leasehold.client.Completion;
import dev.leasehold.client.Constants;
import dev.leasehold.client.Loss;
import dev.leasehold.client.RefusedException;
import dev.leasehold.client.Run;
import dev.leasehold.client.internal.clock.Durations;
import dev.leasehold.client.internal.connect.Calls;
import dev.leasehold.client.internal.connect.ClientContext;
import dev.leasehold.client.internal.connect.Connection;
import dev.leasehold.client.internal.errors.Refusals;
import dev.leasehold.client.internal.hold.Keeper;
import dev.leasehold.client.internal.hold.Kept;
import dev.leasehold.v1.CompleteRunRequest;
import dev.leasehold.v1.CompleteRunResponse;
import dev.leasehold.v1.EndedRun;
import dev.leasehold.v1.LossReason;
import dev.leasehold.v1.RunKind;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** A run whose hold the stream of a subscription keeps. */
final class StreamRun extends Kept implements Run {
  private final dev.leasehold.v1.Run run;
  private final RunCourse course;
  private CompletableFuture<CompleteRunResponse> completed;

  StreamRun(dev.leasehold.v1.Run run, Keeper keeper, RunCourse course) {
    super(keeper);
    this.run = run;
    this.course = course;
    keeper.line().leaveAfter(this);
  }

  /** Has another replica run what cannot be run here; said once, and else its lease expires. */
  static CompletableFuture<CompleteRunResponse> giveBack(
      Calls calls, String runId, String leaseId, long generation, Duration patience) {
    CompleteRunRequest request =
        Completion.returned().toMessage(runId).toBuilder()
            .setLeaseId(leaseId)
            .setGeneration(generation)
            .build();
    return send(calls, request, patience);
  }

  /** Says how a run ended. */
  static CompletableFuture<CompleteRunResponse> send(
      Calls calls, CompleteRunRequest request, Duration patience) {
    return calls.callSchedules(patience, stub -> stub.completeRun(request));
  }

  private static Instant instant(Timestamp wire) {
    return Instant.ofEpochSecond(wire.getSeconds(), wire.getNanos());
  }

  @Override
  public Instant scheduledAt() {
    return instant(run.getScheduledAt());
  }

  @Override
  public String localTime() {
    return run.getLocalTime();
  }

  @Override
  public RunKind kind() {
    return run.getKind();
  }

  @Override
  public Optional<String> requestId() {
    return Optional.of(run.getRequestId()).filter(id -> !id.isEmpty());
  }

  @Override
  public String runId() {
    return run.getRunId();
  }

  @Override
  public int attempt() {
    return run.getAttempt();
  }

  @Override
  public int maxAttempts() {
    return run.getMaxAttempts();
  }

  @Override
  public Duration lateness() {
    return Durations.fromWire(run.getLateness());
  }

  @Override
  public long missedCount() {
    return run.getMissedCount();
  }

  @Override
  public Optional<BootInstant> deadline() {
    return state.maxHoldEnds();
  }

  @Override
  public Optional<Instant> deadlineAt() {
    return run.hasDeadlineAt() ? Optional.of(instant(run.getDeadlineAt())) : Optional.empty();
  }

  @Override
  public Optional<Instant> nextAt() {
    return run.hasNextAt() ? Optional.of(instant(run.getNextAt())) : Optional.empty();
  }

  @Override
  public Optional<EndedRun> previous() {
    return run.hasPrevious() ? Optional.of(run.getPrevious()) : Optional.empty();
  }

  @Override
  public boolean shouldFinish() {
    return state.notice().isPresent() || course.isDraining();
  }

  @Override
  public CompleteRunResponse complete(Completion completion) throws InterruptedException {
    CompletableFuture<CompleteRunResponse> answer = completing(completion);
    keeper.interrupt().leave();
    return Calls.await(answer);
  }

  /** Whether it was said how it ended. */
  synchronized boolean isCompleted() {
    return completed != null;
  }

  /** Whether it was lost at its deadline (T12). */
  boolean isTimedOut() {
    return state.loss().map(Loss::reason).orElse(null) == LossReason.LOSS_REASON_MAX_HOLD_REACHED;
  }

  /** Whether it was lost before it was completed. */
  boolean isLost() {
    // Reads the clock, so that the end of validity counts.
    state.remaining();
    return state.loss().isPresent();
  }

  /** The run was left, by an InterruptedException or not; what the loss has set is taken back. */
  void leave(boolean byInterrupt) {
    if (byInterrupt) {
      keeper.interrupt().noticed();
    }
    keeper.interrupt().leave();
  }

  /**
   * Completes it, whatever interrupts this thread; but if it is interrupted, or to stop, it waits
   * for the answer only as long as for a release.
   */
  void finish(Completion completion, boolean stopping) {
    CompletableFuture<CompleteRunResponse> answer = completing(completion);
    long patience = course.context().limits().release().toNanos();
    boolean interrupted = false;
    try {
      while (true) {
        try {
          if (stopping || interrupted) {
            answer.get(patience, TimeUnit.NANOSECONDS);
          } else {
            answer.get();
          }
          return;
        } catch (InterruptedException stop) {
          interrupted = true;
        }
      }
    } catch (TimeoutException late) {
      // Its lease expires, and somebody else runs it.
      answer.cancel(true);
    } catch (ExecutionException error) {
      throw Calls.unwrapped(error);
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  @Override
  public void close() {
    leave(false);
    try {
      if (!isCompleted() && !isLost()) {
        finish(Completion.returned(), true);
      }
    } finally {
      giveUp();
    }
  }

  /** Gives its place on the connection back: nobody tells how it ended, or tells it again. */
  private synchronized void giveUp() {
    if (completed == null) {
      keeper.line().leave();
    } else {
      completed.whenComplete((answer, error) -> keeper.line().leave());
    }
  }

  private synchronized CompletableFuture<CompleteRunResponse> completing(Completion completion) {
    if (completed == null || completed.isCompletedExceptionally()) {
      state.end();
      completed = ask(completion);
    }
    return completed;
  }

  private CompletableFuture<CompleteRunResponse> ask(Completion completion) {
    ClientContext context = course.context();
    CompletableFuture<CompleteRunResponse> answer = new CompletableFuture<>();
    Runnable closed = () -> answer.completeExceptionally(RefusedException.of(Connection.closed()));
    context.whenClosed(closed);
    context.closesAfter(answer);
    answer.whenComplete(
        (told, error) -> {
          context.answered(closed);
          keeper.stop();
          RunLine line = (RunLine) keeper.current();
          if (error == null) {
            keeper.line().leave();
            line.completed();
          } else {
            line.end();
          }
        });
    keeper
        .line()
        .releasable(state.validUntil())
        // Where no resume was answered until the lease was over, the run is named by its id.
        .exceptionally(unanswered -> keeper.line().generation())
        .thenAccept(
            generation -> {
              CompleteRunRequest request =
                  completion.toMessage(runId()).toBuilder()
                      .setLeaseId(keeper.grant().getLeaseId())
                      .setGeneration(generation)
                      .build();
              ask(request, answer, Constants.FIRST_PAUSE);
            });
    return answer;
  }

  /** Until it is answered, or asking again does not help. */
  private void ask(
      CompleteRunRequest request, CompletableFuture<CompleteRunResponse> answer, Duration pause) {
    if (answer.isDone()) {
      return;
    }
    send(keeper.line().calls(), request, Constants.COMPLETION_TIMEOUT)
        .whenComplete(
            (told, error) -> {
              if (error == null) {
                answer.complete(told);
                return;
              }
              Throwable cause = Calls.cause(error);
              if (cause instanceof RefusedException refusal && Refusals.mayPass(refusal)) {
                Duration longer =
                    Durations.shorter(pause.multipliedBy(2), Constants.LONGEST_RUN_PAUSE);
                course
                    .context()
                    .after(refusal.retryAfter().orElse(pause), () -> ask(request, answer, longer));
              } else {
                answer.completeExceptionally(cause);
              }
            });
  }

  /** Without its ids, which are secrets (S20). */
  @Override
  public String toString() {
    return "Run["
        + lockPath()
        + ", "
        + localTime()
        + ", attempt "
        + attempt()
        + ", token "
        + fencingToken()
        + "]";
  }
}

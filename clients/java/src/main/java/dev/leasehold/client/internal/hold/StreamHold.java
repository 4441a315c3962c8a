package dev.leasehold.client.internal.hold;

import com.google.protobuf.ByteString;
import dev.leasehold.client.BootInstant;
import dev.leasehold.client.Constants;
import dev.leasehold.client.Hold;
import dev.leasehold.client.HoldBody;
import dev.leasehold.client.LeaseholdException;
import dev.leasehold.client.Loss;
import dev.leasehold.client.LostException;
import dev.leasehold.client.RefusedException;
import dev.leasehold.client.ReleaseUnconfirmedException;
import dev.leasehold.client.internal.connect.Calls;
import dev.leasehold.client.internal.connect.ClientContext;
import dev.leasehold.client.internal.errors.Refusals;
import dev.leasehold.v1.CheckpointOutcome;
import dev.leasehold.v1.ExtendLeaseResponse;
import dev.leasehold.v1.GetHoldResponse;
import dev.leasehold.v1.ReleaseOutcome;
import dev.leasehold.v1.ReleaseResult;
import dev.leasehold.v1.RunOutcome;
import io.grpc.Status;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/** A hold that a stream to the sidecar keeps. */
public final class StreamHold extends Kept implements Hold {
  private CompletableFuture<ReleaseResult> released;

  /** What the release carries. */
  private volatile Ending ending = Ending.PLAIN;

  /** The loss that only the release has found. */
  private volatile Optional<Loss> found = Optional.empty();

  /** What {@link #release()} threw last. */
  private volatile LeaseholdException told;

  StreamHold(Keeper keeper) {
    super(keeper);
    keeper.line().leaveAfter(this);
  }

  @Override
  public String leaseId() {
    return keeper.grant().getLeaseId();
  }

  @Override
  public BootInstant validUntil() {
    return state.validUntil();
  }

  @Override
  public Optional<BootInstant> maxHoldEnds() {
    return state.maxHoldEnds();
  }

  @Override
  public int permit() {
    return keeper.grant().getPermit();
  }

  @Override
  public int attempt() {
    return keeper.grant().getAttempt();
  }

  @Override
  public CompletableFuture<Long> saveAsync(byte[] value) {
    ByteString checked = Ending.checked("value", value);
    return keeper
        .checkpoint()
        .save(checked)
        .thenApplyAsync(version -> version, keeper.context().workers());
  }

  @Override
  public GetHoldResponse info() throws InterruptedException {
    HoldLine line = keeper.line();
    return Calls.await(
        line.ask(
            (generation, sent) ->
                line.calls()
                    .getHold(leaseId(), generation, Constants.CALL_TIMEOUT)
                    .thenApply(
                        answer -> {
                          state.takeIn(answer, sent);
                          return answer;
                        })));
  }

  @Override
  public void extend(Duration maxHold) throws InterruptedException {
    HoldLine line = keeper.line();
    Calls.await(
        line.askHere((generation, sent) -> line.calls().extend(leaseId(), generation, maxHold))
            .thenAccept(this::extended));
  }

  private void extended(HoldLine.Answered<ExtendLeaseResponse> done) {
    ExtendLeaseResponse answer = done.answer();
    BootInstant sent = done.sent();
    keeper.line().replaceResumeToken(answer.getResumeToken(), done.generation());
    if (answer.hasMaxHoldEnds()) {
      state.takeInEnd(answer.getMaxHoldEnds(), Optional.of(sent));
    }
    state.takeIn(answer.getValidity(), Optional.of(sent));
  }

  @Override
  public CompletableFuture<ReleaseResult> releaseAsync() {
    return releasing(Ending.PLAIN).thenApplyAsync(this::unlessLost, keeper.context().workers());
  }

  @Override
  public CompletableFuture<ReleaseResult> releaseAsync(byte[] checkpoint) {
    return releasing(Ending.saving(checkpoint))
        .thenApplyAsync(this::unlessLost, keeper.context().workers());
  }

  /** The first call decides what is released with; later ones have its outcome. */
  private synchronized CompletableFuture<ReleaseResult> releasing(Ending wanted) {
    if (released == null) {
      state.end();
      ending = wanted;
      released = state.loss().isPresent() ? lostBefore() : sendRelease();
      released.whenComplete((result, error) -> keeper.line().leave());
      keeper.context().closesAfter(released);
    }
    return released;
  }

  /**
   * The sidecar is told that the holder knows of its loss and has let go, so that the lock need not
   * be kept for it (S13). Not where a resume may have made a newer generation (S16). Whatever is
   * answered, the hold is lost.
   */
  private CompletableFuture<ReleaseResult> lostBefore() {
    ReleaseResult lost =
        ReleaseResult.newBuilder().setOutcome(ReleaseOutcome.RELEASE_OUTCOME_ALREADY_LOST).build();
    ClientContext context = keeper.context();
    return keeper
        .line()
        .releasable(context.clock().latest())
        .thenCompose(
            generation ->
                keeper
                    .line()
                    .calls()
                    .release(leaseId(), generation, Ending.PLAIN, Constants.KNOWN_TIMEOUT))
        .handle((answer, error) -> lost);
  }

  private CompletableFuture<ReleaseResult> sendRelease() {
    Ending carried = ending;
    ClientContext context = keeper.context();
    Duration timeout = context.limits().release();
    BootInstant deadline = context.clock().latest().plus(timeout);
    keeper.releasing();
    return keeper
        .line()
        .releasable(deadline)
        .thenCompose(
            generation -> {
              Duration left = deadline.since(context.clock().latest());
              return keeper.line().calls().release(leaseId(), generation, carried, left);
            })
        .exceptionallyCompose(error -> CompletableFuture.failedFuture(unconfirmed(error, timeout)))
        .whenComplete(
            (result, error) -> {
              if (error == null) {
                keeper.released();
              } else {
                keeper.stop();
              }
            });
  }

  private Throwable unconfirmed(Throwable error, Duration timeout) {
    Throwable cause = Calls.cause(error);
    boolean late =
        cause instanceof RefusedException refusal
            && refusal.code() == Status.Code.DEADLINE_EXCEEDED;
    String why = "the sidecar has not answered within " + timeout.toMillis() + " ms";
    return late ? new ReleaseUnconfirmedException(lockPath(), why, cause) : cause;
  }

  /** A new exception each time: it may be suppressed by the one before it. */
  private ReleaseResult unlessLost(ReleaseResult result) {
    found = Losses.foundBy(result);
    Optional<Loss> loss = state.loss().or(() -> found);
    if (loss.isPresent()) {
      throw new LostException(loss.get(), null, result.getCheckpointOutcome());
    }
    if (isCheckpointIgnored(result)) {
      throw Refusals.unknownCalls("checkpoints");
    }
    if (ending.outcome().isPresent()) {
      Ending.checkRecorded(result);
    }
    return result;
  }

  /** S37: the sidecar says what became of a checkpoint, if it knows of them. */
  private boolean isCheckpointIgnored(ReleaseResult result) {
    return ending.checkpoint().isPresent()
        && result.getOutcome() != ReleaseOutcome.RELEASE_OUTCOME_ALREADY_RELEASED
        && result.getCheckpointOutcome() == CheckpointOutcome.CHECKPOINT_OUTCOME_UNSPECIFIED;
  }

  @Override
  public ReleaseResult release() {
    return release(Ending.PLAIN);
  }

  @Override
  public ReleaseResult release(byte[] checkpoint) {
    return release(Ending.saving(checkpoint));
  }

  @Override
  public ReleaseResult release(RunOutcome outcome) {
    return release(Ending.of(outcome));
  }

  @Override
  public ReleaseResult release(RunOutcome outcome, byte[] checkpoint) {
    return release(Ending.of(outcome, checkpoint));
  }

  private ReleaseResult release(Ending wanted) {
    try {
      return awaitRelease(wanted);
    } catch (LeaseholdException error) {
      told = error;
      throw error;
    }
  }

  private ReleaseResult awaitRelease(Ending wanted) {
    CompletableFuture<ReleaseResult> result = releasing(wanted);
    keeper.interrupt().leave();
    return unlessLost(Calls.awaitUninterruptibly(result));
  }

  @Override
  public void close() {
    try {
      awaitRelease(Ending.PLAIN);
    } catch (LeaseholdException error) {
      // One that the block was told already cannot be suppressed by itself.
      if (error != told) {
        throw error;
      }
    }
  }

  /**
   * Says of a block that ended by {@code thrown} that it ended by the loss, if the hold is lost.
   * What the release alone tells is told by {@link #close()}, which does not go before {@code
   * thrown}.
   */
  void rethrowIfLost(Exception thrown) {
    if (thrown instanceof InterruptedException) {
      keeper.interrupt().noticed();
    }
    try {
      awaitRelease(Ending.PLAIN);
    } catch (LeaseholdException told) {
      Optional<Loss> loss = state.loss();
      if (loss.isPresent()) {
        throw new LostException(loss.get(), thrown);
      }
    }
  }

  /** Runs {@code body} under the lock, and releases it, whatever {@code body} does. */
  public <T, E extends Exception> T run(HoldBody<T, E> body) throws E, InterruptedException {
    try (StreamHold held = this) {
      try {
        return body.run(held);
      } catch (Exception thrown) {
        rethrowIfLost(thrown);
        throw thrown;
      }
    }
  }

  /** Whether {@code told} tells of the loss of this hold, and not of another's. */
  boolean isLostBy(LostException told) {
    return state.loss().or(() -> found).filter(loss -> loss.equals(told.loss())).isPresent();
  }

  /** Releases the lock without waiting: nobody has used it. */
  void abandon() {
    state.end();
    keeper.stop();
    keeper.line().leave();
  }

  /** Without the lease id, which is a secret (S20). */
  @Override
  public String toString() {
    return "Hold[" + lockPath() + ", token " + fencingToken() + "]";
  }
}

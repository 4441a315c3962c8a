package dev.leasehold.client;

import dev.leasehold.v1.ReleaseOutcome;
import dev.leasehold.v1.ReleaseResult;
import dev.leasehold.v1.Validity;
import io.grpc.Status;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/** A hold that a stream to the sidecar keeps. */
final class StreamHold implements Hold {
  private final HoldKeeper keeper;
  private final HoldState state;
  private CompletableFuture<ReleaseResult> released;

  /** What {@link #release()} threw last. */
  private volatile LeaseholdException told;

  StreamHold(HoldKeeper keeper) {
    this.keeper = keeper;
    this.state = keeper.state();
  }

  @Override
  public long fencingToken() {
    return keeper.grant().getFencingToken();
  }

  @Override
  public String lockPath() {
    return keeper.grant().getLockPath();
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
  public Duration remaining() {
    return state.remaining();
  }

  @Override
  public boolean isValid() {
    return state.isValid();
  }

  @Override
  public CompletableFuture<Loss> lost() {
    return keeper.lost().copy();
  }

  @Override
  public void reportProgress() throws InterruptedException {
    BootInstant sent = keeper.context().clock().earliest();
    Calls calls = keeper.context().calls();
    heard(calls.reportProgress(leaseId(), keeper.line().generation(), false, Calls.PATIENCE), sent);
  }

  @Override
  public void extend(Duration maxHold) throws InterruptedException {
    BootInstant sent = keeper.context().clock().earliest();
    Calls calls = keeper.context().calls();
    heard(
        calls
            .extend(leaseId(), keeper.line().generation(), maxHold)
            .thenApply(
                answer -> {
                  keeper.line().replaceResumeToken(answer.getResumeToken());
                  return answer.getValidity();
                }),
        sent);
  }

  private void heard(CompletableFuture<Validity> answer, BootInstant sent)
      throws InterruptedException {
    try {
      state.takeIn(Calls.await(answer), Optional.of(sent));
    } catch (RefusedException refusal) {
      Loss.toldBy(refusal).ifPresent(state::lose);
      throw refusal;
    }
  }

  @Override
  public CompletableFuture<ReleaseResult> releaseAsync() {
    return releasing().thenApplyAsync(this::unlessLost, keeper.context().workers());
  }

  private synchronized CompletableFuture<ReleaseResult> releasing() {
    if (released == null) {
      state.end();
      released = state.loss().isPresent() ? lostBefore() : sendRelease();
    }
    return released;
  }

  private static CompletableFuture<ReleaseResult> lostBefore() {
    return CompletableFuture.completedFuture(
        ReleaseResult.newBuilder().setOutcome(ReleaseOutcome.RELEASE_OUTCOME_ALREADY_LOST).build());
  }

  private CompletableFuture<ReleaseResult> sendRelease() {
    ClientContext context = keeper.context();
    Duration timeout = context.limits().release();
    BootInstant deadline = context.clock().latest().plus(timeout);
    return keeper
        .releasable(deadline)
        .thenCompose(
            generation -> {
              Duration left = deadline.since(context.clock().latest());
              return context.calls().release(leaseId(), generation, left);
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
    return late ? NotReleasedException.unanswered(lockPath(), timeout, cause) : cause;
  }

  /** A new exception each time: it may be suppressed by the one before it. */
  private ReleaseResult unlessLost(ReleaseResult result) {
    Optional<Loss> loss = state.loss().or(() -> Loss.foundBy(result));
    if (loss.isPresent()) {
      throw new HoldLostException(loss.get());
    }
    return result;
  }

  @Override
  public ReleaseResult release() {
    try {
      return awaitRelease();
    } catch (LeaseholdException error) {
      told = error;
      throw error;
    }
  }

  private ReleaseResult awaitRelease() {
    CompletableFuture<ReleaseResult> result = releasing();
    keeper.interrupt().leave();
    return unlessLost(Calls.awaitUninterruptibly(result));
  }

  @Override
  public void close() {
    try {
      awaitRelease();
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
      awaitRelease();
    } catch (LeaseholdException told) {
      Optional<Loss> loss = state.loss();
      if (loss.isPresent()) {
        throw new HoldLostException(loss.get(), thrown);
      }
    }
  }

  /** Releases the lock without waiting: nobody has used it. */
  void abandon() {
    state.end();
    keeper.stop();
  }

  /**
   * The current thread runs under the lock from now on, and is interrupted when the hold is lost.
   */
  void interruptOnLoss() {
    keeper.interrupt().enter();
  }

  /** Without the lease id, which is a secret (S20). */
  @Override
  public String toString() {
    return "Hold[" + lockPath() + ", token " + fencingToken() + "]";
  }
}

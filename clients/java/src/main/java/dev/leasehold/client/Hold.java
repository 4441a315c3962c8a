package dev.leasehold.client;

import dev.leasehold.v1.ReleaseOutcome;
import dev.leasehold.v1.ReleaseResult;
import dev.leasehold.v1.Validity;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/**
 * A lock that is held, until it is closed or lost.
 *
 * <p>What it says is right also after the process, or the machine, was stopped and goes on: each
 * question reads the boot clock. Between the question and the deed the process may be stopped
 * again, so let protected resources check {@link #fencingToken()}.
 *
 * <p>Safe for several threads.
 */
public final class Hold implements AutoCloseable {
  private final HoldKeeper keeper;
  private final HoldState state;
  private CompletableFuture<ReleaseResult> released;

  /** What {@link #release()} threw last. */
  private volatile LeaseholdException told;

  Hold(HoldKeeper keeper) {
    this.keeper = keeper;
    this.state = keeper.state();
  }

  /**
   * Greater than every token granted for this lock before: send it with each write, and let the
   * resource refuse smaller ones than it has seen (S5).
   *
   * @return 1 to 2^53 - 1
   */
  public long fencingToken() {
    return keeper.grant().getFencingToken();
  }

  /**
   * The path of the lock.
   *
   * @return container, slash, name in the container
   */
  public String lockPath() {
    return keeper.grant().getLockPath();
  }

  /**
   * Names this hold in calls of its own. Who knows it can end the hold, so do not log it.
   *
   * @return the lease id
   */
  public String leaseId() {
    return keeper.grant().getLeaseId();
  }

  /**
   * The end of validity on this machine's boot clock, unless renewed. Past it the hold is lost,
   * whether or not anything said so.
   *
   * @return the end of validity
   */
  public BootInstant validUntil() {
    return state.validUntil();
  }

  /**
   * The time left now.
   *
   * @return zero when the hold is over
   */
  public Duration remaining() {
    return state.remaining();
  }

  /**
   * Whether the holder may act now.
   *
   * @return once false, always false
   */
  public boolean isValid() {
    return state.isValid();
  }

  /**
   * Completes when the hold is lost: at the end of its validity at the latest, or a second after
   * that where the machine slept. Never, if the holder ends it first. What is done with the future
   * does nothing to the hold.
   *
   * @return the loss to come
   */
  public CompletableFuture<Loss> lost() {
    return keeper.lost().copy();
  }

  /**
   * Says that the job is getting on, which restarts the progress timeout.
   *
   * @throws RefusedException when the sidecar refuses; with {@link Reason#HOLD_LOST} the hold is
   *     lost, too
   * @throws InterruptedException when the thread is interrupted, as it is when the hold is lost
   */
  public void reportProgress() throws InterruptedException {
    BootInstant sent = keeper.context().clock().earliest();
    Calls calls = keeper.context().calls();
    heard(calls.reportProgress(leaseId(), keeper.line().generation(), false, Calls.PATIENCE), sent);
  }

  /**
   * Sets a new bound of the whole hold, counted from now.
   *
   * @param maxHold how long the hold may still last
   * @throws RefusedException when the sidecar refuses; with {@link Reason#HOLD_LOST} the hold is
   *     lost, too
   * @throws InterruptedException when the thread is interrupted, as it is when the hold is lost
   */
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

  /**
   * Releases the lock. The hold is not valid from the first moment of this call on (S13), so stop
   * acting before. May be repeated.
   *
   * @return completes when the store has it; with a {@link HoldLostException} if the hold was lost
   *     before; with a {@link RefusedException} if it is not known whether the lock was released,
   *     and with a {@link NotReleasedException} if the hold was being resumed: the lock is
   *     available when its lease runs out
   */
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
    return keeper
        .releasable()
        .thenCompose(generation -> keeper.context().calls().release(leaseId(), generation))
        .whenComplete(
            (result, error) -> {
              if (error == null) {
                keeper.released();
              } else {
                keeper.stop();
              }
            });
  }

  /** A new exception each time: it may be suppressed by the one before it. */
  private ReleaseResult unlessLost(ReleaseResult result) {
    Optional<Loss> loss = state.loss().or(() -> Loss.foundBy(result));
    if (loss.isPresent()) {
      throw new HoldLostException(loss.get());
    }
    return result;
  }

  /**
   * Releases the lock and waits until the store has it, whatever interrupts the thread; what did is
   * passed on afterwards. The hold is not valid from the first moment of this call on (S13), so
   * stop acting before. May be repeated.
   *
   * @return what became of the hold
   * @throws HoldLostException when the hold was lost before, also where only the release finds
   *     that: what was done under it may have been done by two
   * @throws RefusedException when it is not known whether the lock was released: it is available
   *     when its lease runs out
   * @throws NotReleasedException when the hold was being resumed: the lock is available when its
   *     lease runs out
   */
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

  /**
   * Releases the lock as {@link #release()} does.
   *
   * @throws HoldLostException when the hold was lost before it was released
   * @throws RefusedException when it is not known whether the lock was released
   * @throws NotReleasedException when the hold was being resumed
   */
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
    try {
      awaitRelease();
    } catch (LeaseholdException told) {
      Optional<Loss> loss = state.loss();
      if (loss.isPresent()) {
        throw new HoldLostException(loss.get(), thrown);
      }
    }
  }

  /** Gives the lock back without waiting: nobody has had it. */
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

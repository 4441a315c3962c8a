package dev.leasehold.client.internal.hold;

import dev.leasehold.client.Checkpoint;
import dev.leasehold.client.Loss;
import dev.leasehold.client.Notice;
import dev.leasehold.client.internal.connect.Calls;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/** What a hold and a run have in common: a keeper keeps them. */
public abstract class Kept {
  protected final Keeper keeper;
  protected final HoldState state;

  /** Kept by {@code keeper}. */
  protected Kept(Keeper keeper) {
    this.keeper = keeper;
    this.state = keeper.state();
  }

  /** The token to send with each write. */
  public final long fencingToken() {
    return keeper.grant().getFencingToken();
  }

  /** The path of the lock. */
  public final String lockPath() {
    return keeper.grant().getLockPath();
  }

  /** Whether the holder may act now. */
  public final boolean isValid() {
    return state.isValid();
  }

  /** The time left now, unless renewed. */
  public final Duration remaining() {
    return state.remaining();
  }

  /** The loss to come. */
  public final CompletableFuture<Loss> lost() {
    return keeper.lost().copy();
  }

  /** The notice to come. */
  public final CompletableFuture<Notice> revoked() {
    return keeper.revoked().copy();
  }

  /** The notice, if the lock was broken. */
  public final Optional<Notice> notice() {
    return state.notice();
  }

  /** The lock's checkpoint. */
  public final Optional<Checkpoint> checkpoint() {
    return keeper.checkpoint().newest();
  }

  /** Saves a checkpoint; the version that the store has then. */
  public final long save(byte[] value) throws InterruptedException {
    return Calls.await(keeper.checkpoint().save(Ending.checked("value", value)));
  }

  /** Reports progress, which restarts the progress timeout. */
  public final void reportProgress() throws InterruptedException {
    HoldLine line = keeper.line();
    Calls.await(
        line.ask(
            (generation, sent) ->
                line.calls()
                    .reportProgress(line.leaseId(), generation)
                    .thenApply(validity -> state.takeIn(validity, Optional.of(sent)))));
  }

  /** The current thread runs under the lock from now on: a loss interrupts it. */
  public final void interruptOnLoss() {
    keeper.interrupt().enter();
  }
}

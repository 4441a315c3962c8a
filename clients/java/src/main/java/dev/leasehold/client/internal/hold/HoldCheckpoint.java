package dev.leasehold.client.internal.hold;

import com.google.protobuf.ByteString;
import dev.leasehold.client.BootInstant;
import dev.leasehold.client.Checkpoint;
import dev.leasehold.client.CheckpointUnknownException;
import dev.leasehold.client.Constants;
import dev.leasehold.client.LeaseholdException;
import dev.leasehold.client.LostException;
import dev.leasehold.client.Reason;
import dev.leasehold.client.RefusedException;
import dev.leasehold.client.internal.connect.Calls;
import dev.leasehold.client.internal.errors.Refusals;
import dev.leasehold.v1.Grant;
import dev.leasehold.v1.SaveCheckpointResponse;
import io.grpc.Status;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/** The checkpoint of a hold, and its saves (S23 to S27). */
public final class HoldCheckpoint {
  private final HoldState state;
  private final HoldLine line;
  private final Grant grant;

  /** Null if there is none. */
  private Checkpoint newest;

  private long begun;

  /** Which save {@link #newest} is of: of two with the same version the later one counts (S26). */
  private long newestNumber;

  HoldCheckpoint(HoldState state, HoldLine line, Grant grant) {
    this.state = state;
    this.line = line;
    this.grant = grant;
    this.newest = Grants.checkpointOf(grant).orElse(null);
  }

  /** As it was granted, or as this hold has saved it since. */
  public synchronized Optional<Checkpoint> newest() {
    return Optional.ofNullable(newest);
  }

  /** The hold was resumed: a save whose answer was lost may have been stored. */
  synchronized void resumed(Grant again) {
    Grants.checkpointOf(again).filter(this::isNewer).ifPresent(stored -> newest = stored);
  }

  private boolean isNewer(Checkpoint other) {
    return newest == null || other.version() > newest.version();
  }

  /** Saves; the version that the store has then. */
  public CompletableFuture<Long> save(ByteString value) {
    if (!state.isValid()) {
      return CompletableFuture.failedFuture(over());
    }
    long number = begin();
    return line.usable(this::over)
        .thenCompose(
            first ->
                line.ask(first, (generation, sent) -> send(value, generation, sent))
                    .thenApply(answer -> saved(answer, value, number)))
        .exceptionallyCompose(error -> CompletableFuture.failedFuture(explained(error)));
  }

  private synchronized long begin() {
    begun++;
    return begun;
  }

  /** Why nothing can be saved any more; reads the clock, so that the end of validity counts. */
  private LeaseholdException over() {
    state.remaining();
    return state
        .loss()
        .<LeaseholdException>map(LostException::new)
        .orElseGet(() -> Refusals.released(grant.getLockPath()));
  }

  private CompletableFuture<SaveCheckpointResponse> send(
      ByteString value, long generation, BootInstant sent) {
    Duration left = state.remaining();
    if (left.isZero()) {
      return CompletableFuture.failedFuture(over());
    }
    return line.calls()
        .saveCheckpoint(line.leaseId(), generation, value, left.plus(Constants.SAVE_GRACE))
        .thenApply(
            answer -> {
              if (answer.hasValidity()) {
                state.takeIn(answer.getValidity(), Optional.of(sent));
              }
              return answer;
            });
  }

  private long saved(SaveCheckpointResponse answer, ByteString value, long number) {
    Checkpoint stored =
        new Checkpoint(value, answer.getVersion(), grant.getFencingToken(), Optional.empty());
    synchronized (this) {
      boolean sameVersion = newest != null && newest.version() == stored.version();
      if (isNewer(stored) || (sameVersion && number > newestNumber)) {
        newest = stored;
        newestNumber = number;
      }
    }
    return answer.getVersion();
  }

  private Throwable explained(Throwable error) {
    Throwable cause = Calls.cause(error);
    if (Losses.toldBy(cause).isPresent()) {
      return over();
    }
    boolean unknown =
        cause instanceof RefusedException refusal
            && (Refusals.is(refusal, Reason.CHECKPOINT_UNKNOWN) || isUnanswered(refusal));
    return unknown ? new CheckpointUnknownException(cause) : Refusals.knowingCheckpoints(cause);
  }

  /** The connection broke, or brought no answer in time. */
  private static boolean isUnanswered(RefusedException refusal) {
    boolean ended = Refusals.isBreak(refusal) || refusal.code() == Status.Code.DEADLINE_EXCEEDED;
    return ended && refusal.reasonName().isEmpty();
  }
}

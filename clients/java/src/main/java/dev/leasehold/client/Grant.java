package dev.leasehold.client;

import java.util.Optional;

/**
 * A lock that was taken by a unary call. The sidecar renews it; nothing here is told of its loss.
 *
 * @param lockPath the path of the lock
 * @param hostId the host id in that path
 * @param fencingToken greater than every token granted for this lock before (S5)
 * @param leaseId names this hold in other calls; who knows it can end the hold, so do not log it
 * @param validUntil until when the holder may act, unless renewed: ask {@code reportProgress} from
 *     time to time
 * @param maxHoldEnds when {@code maxHold} ends, and the hold with it unless it is extended before;
 *     empty if that was not told
 * @param permit which permit of the lock is held: 0 for the lock's own path
 * @param attempt which attempt at the occurrence this is, from 1; 0 if none was asked for. Greater
 *     than 1 means that an earlier holder failed, or died without an outcome
 * @param checkpoint the lock's checkpoint as the last holder left it; empty if there is none
 */
public record Grant(
    String lockPath,
    String hostId,
    long fencingToken,
    String leaseId,
    BootInstant validUntil,
    Optional<BootInstant> maxHoldEnds,
    int permit,
    int attempt,
    Optional<Checkpoint> checkpoint) {
  /** Without the lease id, which is a secret (S20). */
  @Override
  public String toString() {
    return "Grant[" + lockPath + ", token " + fencingToken + "]";
  }
}

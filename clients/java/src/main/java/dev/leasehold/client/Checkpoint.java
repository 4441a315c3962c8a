package dev.leasehold.client;

import com.google.protobuf.ByteString;
import java.time.Instant;
import java.util.Optional;

/**
 * A small value that is stored with a lock: where the next holder goes on from (S23). Not for
 * secrets: anybody who may read locks can read it.
 *
 * @param value at most 2,048 bytes
 * @param version grows with each save of the lock's checkpoint, 1 to 2^53 - 1
 * @param fencingToken the token of the holder that saved it
 * @param savedAt when it was saved, by the store's clock; empty for what this hold itself has saved
 */
public record Checkpoint(
    ByteString value, long version, long fencingToken, Optional<Instant> savedAt) {
  /** The most bytes that a checkpoint may have. */
  public static final int MAX_BYTES = Constants.CHECKPOINT_BYTES;

  /**
   * The value as it was saved.
   *
   * @return a copy
   */
  public byte[] bytes() {
    return value.toByteArray();
  }

  /**
   * The value as text in UTF-8: for a parser of your choice, of JSON or anything else.
   *
   * @return the text
   */
  public String text() {
    return value.toStringUtf8();
  }
}

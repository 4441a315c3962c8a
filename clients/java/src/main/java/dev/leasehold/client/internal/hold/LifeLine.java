package dev.leasehold.client.internal.hold;

import dev.leasehold.client.internal.connect.Connections;
import dev.leasehold.client.internal.connect.EventStream.Signal;
import dev.leasehold.v1.HoldLeaseResponse;
import dev.leasehold.v1.Resume;
import java.util.function.Consumer;

/**
 * The stream that a hold lives by (S14), whatever call it is of. Its signals come in their order
 * and one at a time.
 */
public interface LifeLine {
  /** Hands everything over to {@code reader} from now on, starting with what was kept. */
  void read(Consumer<Signal<HoldLeaseResponse>> reader);

  /** Keeps what comes until the next {@link #read}. */
  void pause();

  /** A place for the hold's calls, on this stream's connection. */
  Connections.Place beside();

  /** Lets no more streams onto this one's connection. */
  void retireConnection();

  /** Asks for the hold to be resumed on another stream, which was just opened (S16). */
  LifeLine resume(Resume resume);

  /** Ends the call: it is not the hold's any more, or the hold has ended before (S13). */
  void cancel();

  /** The hold is over, by a loss or by its holder, and nobody reads this any more. */
  void over(boolean isLost);
}

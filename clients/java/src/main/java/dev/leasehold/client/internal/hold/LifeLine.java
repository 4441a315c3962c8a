package dev.leasehold.client.internal.hold;

import dev.leasehold.client.internal.connect.Calls;
import dev.leasehold.client.internal.connect.Connections;
import dev.leasehold.client.internal.connect.EventStream;
import dev.leasehold.client.internal.connect.EventStream.Signal;
import dev.leasehold.v1.HoldLeaseResponse;
import dev.leasehold.v1.Resume;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/**
 * The stream that a hold lives by (S14), whatever call it is of. Its signals come in their order
 * and one at a time.
 */
public abstract class LifeLine {
  private final EventStream<?, ?> stream;

  /** Lives by {@code stream}. */
  protected LifeLine(EventStream<?, ?> stream) {
    this.stream = stream;
  }

  /** Hands everything over to {@code reader} from now on, starting with what was kept. */
  public abstract void read(Consumer<Signal<HoldLeaseResponse>> reader);

  /** Keeps what comes until the next {@link #read}. */
  final void pause() {
    stream.pause();
  }

  /** A place for the hold's calls, on this stream's connection. */
  final Connections.Place beside() {
    return stream.beside();
  }

  /** Lets no more streams onto this one's connection. */
  final void retireConnection() {
    stream.retireConnection();
  }

  /** Asks for the hold to be resumed on another stream, which was just opened (S16). */
  public abstract LifeLine resume(Resume resume);

  /** Tells the sidecar that the hold of this generation, which has ended here, is given up. */
  public abstract CompletableFuture<?> giveUp(Calls calls, String leaseId, long generation);

  /** Ends the call: it is not the hold's any more, or the hold has ended before (S13). */
  public void cancel() {
    stream.cancel();
  }

  /** The hold is over, by a loss or by its holder, and nobody reads this any more. */
  public abstract void over(boolean isLost);
}

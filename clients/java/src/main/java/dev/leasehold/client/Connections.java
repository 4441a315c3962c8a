package dev.leasehold.client;

import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import java.util.function.Supplier;

/**
 * The ways to a sidecar. A connection carries only so many calls at once (the sidecar's
 * limits.streams_per_connection), so those that last have one, and those that must go through at
 * once have another: a release never stands in line behind holds (S13), nor a question about the
 * validity (S21).
 */
final class Connections implements AutoCloseable {
  private final Connection lasting;
  private final Connection brief;
  private final Runnable whenClosed;

  /** {@code channels} makes channels that connect when they are first used. */
  Connections(Supplier<ManagedChannel> channels, Metadata headers, Runnable whenClosed) {
    this.lasting = new Connection(channels, headers);
    this.brief = new Connection(channels, headers);
    this.whenClosed = whenClosed;
  }

  /** For calls that last as long as a hold, a wait or a watch. Connected first. */
  Connection lasting() {
    return lasting;
  }

  /** For all other calls, releases above all. */
  Connection brief() {
    return brief;
  }

  /** Ends all calls. */
  @Override
  public void close() {
    lasting.close();
    brief.close();
    whenClosed.run();
  }
}

package dev.leasehold.client;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;

/**
 * The ways to a sidecar. A connection carries only so many calls at once (the sidecar's
 * limits.streams_per_connection), so those that last are spread over as many connections as they
 * need, and those that must go through at once have another: a release never stands in line behind
 * holds (S13), nor a question about the validity (S21).
 */
final class Connections implements AutoCloseable {
  private final Supplier<Connection> maker;
  private final int streams;
  private final List<Lasting> lasting = new ArrayList<>();

  /** For what no other connection carries. */
  private Connection brief;

  private final Runnable whenClosed;
  private boolean closed;

  /** {@code maker} makes connections, each for at most {@code streams} lasting calls. */
  Connections(Supplier<Connection> maker, int streams, Runnable whenClosed) {
    this.maker = maker;
    this.streams = streams;
    this.whenClosed = whenClosed;
    try {
      this.brief = maker.get();
      this.lasting.add(new Lasting(maker.get(), brief));
    } catch (RuntimeException unusable) {
      whenClosed.run();
      throw unusable;
    }
  }

  /** A connection for lasting calls. */
  private static final class Lasting {
    private final Connection connection;

    /** For short calls about what this one carries. */
    private final Connection brief;

    private int calls;

    /** Takes no more calls. */
    private boolean retired;

    Lasting(Connection connection, Connection brief) {
      this.connection = connection;
      this.brief = brief;
    }
  }

  /** The place of one lasting call on a connection. */
  final class Place implements AutoCloseable {
    private final Lasting on;
    private boolean left;

    private Place(Lasting on) {
      this.on = on;
    }

    Connection connection() {
      return on.connection;
    }

    /** Lets no more calls onto this connection: it has gone silent. */
    void retireConnection() {
      synchronized (Connections.this) {
        on.retired = true;
      }
    }

    /**
     * For short calls about what is here: they go where this connection was made, and another
     * sidecar does not know it.
     */
    Connection brief() {
      synchronized (Connections.this) {
        return on.brief.isClosed() ? brief : on.brief;
      }
    }

    /** Its sidecar is too old for this call: new connections may meet another one (S37). */
    void leaveSidecar() {
      synchronized (Connections.this) {
        on.retired = true;
        // One that is idle connects anew when it is needed.
        if (on.brief == brief && !brief.isIdle() && !closed) {
          try {
            brief = maker.get();
          } catch (EndpointException unusable) {
            // The next lasting call says so.
          }
        }
      }
    }

    /** The call is over. May be repeated. */
    @Override
    public void close() {
      synchronized (Connections.this) {
        if (left) {
          return;
        }
        left = true;
        on.calls--;
        if (!isSuperfluous(on)) {
          return;
        }
        lasting.remove(on);
        if (on.brief != brief && lasting.stream().noneMatch(other -> other.brief == on.brief)) {
          on.brief.leave();
        }
      }
      on.connection.close();
    }
  }

  private boolean isSuperfluous(Lasting one) {
    boolean replaceable =
        one.retired || lasting.stream().anyMatch(other -> other != one && !other.retired);
    return one.calls == 0 && replaceable;
  }

  /** A place for a call that lasts as long as a hold, a wait or a watch. */
  synchronized Place place() {
    Lasting chosen =
        lasting.stream()
            .filter(one -> !one.retired && one.calls < streams)
            .findFirst()
            .orElseGet(this::another);
    chosen.calls++;
    return new Place(chosen);
  }

  private Lasting another() {
    Lasting made;
    try {
      made = new Lasting(maker.get(), brief);
    } catch (EndpointException unusable) {
      throw Connection.unavailable(unusable);
    }
    if (closed) {
      made.connection.close();
    }
    lasting.add(made);
    return made;
  }

  /** Waits for a sidecar, for so long at the most; how long that took. */
  Duration awaitSidecar(Duration patience) throws InterruptedException {
    try (Place place = place()) {
      return place.connection().awaitReady(patience);
    }
  }

  /** For calls that do not last, releases above all. */
  synchronized Connection brief() {
    return brief;
  }

  /** Ends all calls. */
  @Override
  public void close() {
    List<Lasting> left;
    synchronized (this) {
      closed = true;
      left = List.copyOf(lasting);
    }
    for (Lasting one : left) {
      one.connection.close();
      one.brief.close();
    }
    brief.close();
    whenClosed.run();
  }
}

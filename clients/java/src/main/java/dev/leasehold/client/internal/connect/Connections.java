package dev.leasehold.client.internal.connect;

import dev.leasehold.client.EndpointException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;

/**
 * The ways to a sidecar. A connection carries only so many calls at once (the sidecar's
 * limits.streams_per_connection), so those that last are spread over as many connections as they
 * need, and leave room for others: a release never stands in line behind holds (S13), nor a
 * question about the validity (S21). Those go where the hold's stream is: another connection may
 * meet another sidecar, which does not know the hold. What concerns no stream has a connection of
 * its own.
 */
public final class Connections implements AutoCloseable {
  private final Supplier<Connection> maker;
  private final int streams;
  private final List<Way> lasting = new ArrayList<>();

  /** For what concerns no stream. */
  private final Way general;

  private final Runnable whenClosed;
  private boolean closed;

  /** {@code maker} makes connections, each for at most {@code streams} lasting calls. */
  public Connections(Supplier<Connection> maker, int streams, Runnable whenClosed) {
    this.maker = maker;
    this.streams = streams;
    this.whenClosed = whenClosed;
    try {
      this.general = new Way(maker.get());
    } catch (RuntimeException unusable) {
      whenClosed.run();
      throw unusable;
    }
  }

  /** A connection, and what it carries. */
  private static final class Way {
    private final Connection connection;
    private int lasting;

    /** All of them: it is not closed before they are given back. */
    private int places;

    /** Takes no more lasting calls. */
    private boolean retired;

    Way(Connection connection) {
      this.connection = connection;
    }
  }

  /**
   * The place of one call on a connection, or of a hold whose calls must go over it: it is not
   * closed before.
   */
  public final class Place implements AutoCloseable {
    private final boolean lasts;
    private Way on;
    private boolean left;

    private Place(Way on, boolean lasts) {
      this.on = on;
      this.lasts = lasts;
    }

    /** Where the call of this place goes. */
    public Connection connection() {
      synchronized (Connections.this) {
        return on.connection;
      }
    }

    /**
     * Lets no more lasting calls onto this connection: it has gone silent, or its sidecar is too
     * old for one (S37), and a new connection may meet another.
     */
    public void retireConnection() {
      synchronized (Connections.this) {
        on.retired = true;
      }
    }

    /** For what came here; on the general connection once this one is closed. */
    Place beside() {
      synchronized (Connections.this) {
        return placeOn(lasting.contains(on) ? on : general, false);
      }
    }

    /** A hold goes on where {@code there} is, also when this is closed. */
    public void moveTo(Place there) {
      Way before;
      synchronized (Connections.this) {
        before = on;
        on = there.on;
        if (left) {
          return;
        }
        on.places++;
      }
      leave(before);
    }

    /** The call, or the hold, is over. May be repeated. */
    @Override
    public void close() {
      Way last;
      synchronized (Connections.this) {
        if (left) {
          return;
        }
        left = true;
        last = on;
        last.lasting -= lasts ? 1 : 0;
      }
      leave(last);
    }
  }

  /** Gives a place back, and closes the connection if nothing needs it any more. */
  private void leave(Way one) {
    synchronized (this) {
      one.places--;
      if (!isSuperfluous(one)) {
        return;
      }
      lasting.remove(one);
    }
    one.connection.close();
  }

  private boolean isSuperfluous(Way one) {
    boolean replaceable =
        one.retired || lasting.stream().anyMatch(other -> other != one && !other.retired);
    return one != general && one.places == 0 && replaceable;
  }

  /** A place for a call that lasts as long as a hold, a wait or a watch. */
  synchronized Place place() {
    return placeOn(
        lasting.stream()
            .filter(one -> !one.retired && one.lasting < streams)
            .findFirst()
            .orElseGet(this::another),
        true);
  }

  /**
   * A place for a call that waits, and brings no stream: while there is room, where the calls by
   * its lease id go, which are to meet the same sidecar.
   */
  synchronized Place waiting() {
    return general.lasting < streams ? placeOn(general, true) : place();
  }

  /** A place for a short call that concerns no stream. */
  synchronized Place general() {
    return placeOn(general, false);
  }

  private Place placeOn(Way one, boolean lasts) {
    one.places++;
    one.lasting += lasts ? 1 : 0;
    return new Place(one, lasts);
  }

  private Way another() {
    Way made;
    try {
      made = new Way(maker.get());
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
    return general.connection.awaitReady(patience);
  }

  /** Ends all calls. */
  @Override
  public void close() {
    List<Way> left;
    synchronized (this) {
      closed = true;
      left = List.copyOf(lasting);
    }
    left.forEach(one -> one.connection.close());
    general.connection.close();
    whenClosed.run();
  }
}

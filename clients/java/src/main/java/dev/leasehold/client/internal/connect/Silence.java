package dev.leasehold.client.internal.connect;

import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.LongSupplier;

/**
 * Finds out that a stream has gone silent. A sidecar sends a word at least every 30 s, so one that
 * is not heard for three times as long is cut off, though nobody has closed the connection.
 */
public final class Silence {
  /** All that a client listens to. They are looked at together: a timer each would be dear. */
  public static final class Watch {
    private final Duration limit;
    private final LongSupplier nanos;
    private final Set<Silence> streams = ConcurrentHashMap.newKeySet();

    Watch(Duration limit, LongSupplier nanos) {
      this.limit = limit;
      this.nanos = nanos;
    }

    /** How often {@link #look} should be called. */
    Duration interval() {
      return limit.dividedBy(9);
    }

    /** Calls {@code onSilence} once, from {@link #look}, unless it is stopped before. */
    public Silence start(Runnable onSilence) {
      Silence silence = new Silence(this, onSilence);
      streams.add(silence);
      return silence;
    }

    /** Tells of those that have gone silent. */
    void look() {
      long now = nanos.getAsLong();
      for (Silence stream : List.copyOf(streams)) {
        if (now - stream.heard > limit.toNanos()) {
          stream.stop();
          stream.onSilence.run();
        }
      }
    }
  }

  private final Watch watch;
  private final Runnable onSilence;
  private volatile long heard;

  private Silence(Watch watch, Runnable onSilence) {
    this.watch = watch;
    this.onSilence = onSilence;
    heard();
  }

  /** The stream has brought something. */
  public final void heard() {
    heard = watch.nanos.getAsLong();
  }

  /** The stream is over, or nobody listens any more. */
  public void stop() {
    watch.streams.remove(this);
  }
}

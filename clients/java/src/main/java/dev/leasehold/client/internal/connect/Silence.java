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

    /** Calls {@code onSilence} once, from {@link #look}, unless it is stopped before. */
    public Silence start(Runnable onSilence) {
      Silence silence = new Silence(this, onSilence);
      streams.add(silence);
      return silence;
    }

    /** Tells of those that have gone silent; the time until another one may have. */
    Duration look() {
      long now = nanos.getAsLong();
      long next = limit.toNanos();
      for (Silence stream : List.copyOf(streams)) {
        long left = limit.toNanos() - (now - stream.heard);
        if (left > 0) {
          next = Math.min(next, left);
        } else {
          stream.stop();
          stream.onSilence.run();
        }
      }
      return Duration.ofNanos(next);
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

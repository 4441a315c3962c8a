package dev.leasehold.client.internal.clock;

import java.time.Duration;

/** Durations of time, to and from the wire. */
public final class Durations {
  /** The longest duration that protobuf allows, about 10,000 years. */
  public static final Duration LONGEST = Duration.ofDays(3_652_500);

  private Durations() {}

  /** A duration from the wire; zero for a negative one, which only ends holds earlier. */
  public static Duration fromWire(com.google.protobuf.Duration wire) {
    long seconds = Math.max(-1, Math.min(wire.getSeconds(), LONGEST.toSeconds()));
    return atLeastZero(Duration.ofSeconds(seconds, wire.getNanos()));
  }

  /** A duration for the wire, which knows none beyond the {@link #LONGEST}. */
  public static com.google.protobuf.Duration toWire(Duration duration) {
    Duration sent = duration.compareTo(LONGEST) > 0 ? LONGEST : duration;
    return com.google.protobuf.Duration.newBuilder()
        .setSeconds(sent.getSeconds())
        .setNanos(sent.getNano())
        .build();
  }

  /** Zero for a negative duration. */
  public static Duration atLeastZero(Duration duration) {
    return duration.isNegative() ? Duration.ZERO : duration;
  }

  /** The sum, or the longest duration there is. */
  public static Duration sum(Duration one, Duration other) {
    Duration sum = one.plus(other);
    return sum.compareTo(LONGEST) > 0 ? LONGEST : sum;
  }

  /** The shorter one of two. */
  public static Duration shorter(Duration one, Duration other) {
    return one.compareTo(other) <= 0 ? one : other;
  }
}

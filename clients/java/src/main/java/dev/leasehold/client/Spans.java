package dev.leasehold.client;

import java.time.Duration;

/** Spans of time, to and from the wire. */
final class Spans {
  /** The longest span that protobuf allows, about 10,000 years. */
  static final Duration LONGEST = Duration.ofDays(3_652_500);

  private Spans() {}

  /** A span from the wire; zero for a negative one, which only ends holds earlier. */
  static Duration fromWire(com.google.protobuf.Duration wire) {
    long seconds = Math.max(-1, Math.min(wire.getSeconds(), LONGEST.toSeconds()));
    return atLeastZero(Duration.ofSeconds(seconds, wire.getNanos()));
  }

  static com.google.protobuf.Duration toWire(Duration span) {
    Duration sent = span.compareTo(LONGEST) > 0 ? LONGEST : span;
    return com.google.protobuf.Duration.newBuilder()
        .setSeconds(sent.getSeconds())
        .setNanos(sent.getNano())
        .build();
  }

  static Duration atLeastZero(Duration span) {
    return span.isNegative() ? Duration.ZERO : span;
  }

  /** The sum, or the longest span there is. */
  static Duration sum(Duration one, Duration other) {
    Duration sum = one.plus(other);
    return sum.compareTo(LONGEST) > 0 ? LONGEST : sum;
  }

  static Duration shorter(Duration one, Duration other) {
    return one.compareTo(other) <= 0 ? one : other;
  }
}

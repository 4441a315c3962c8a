package dev.leasehold.client.internal.hold;

import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.BootInstant;
import dev.leasehold.client.internal.clock.BootClock.Present;
import dev.leasehold.client.internal.clock.Durations;
import dev.leasehold.v1.BootTime;
import dev.leasehold.v1.Validity;
import java.time.Duration;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class KnownValidityTest {
  @Test
  void s21AClockThatNamesNoBootIsNotTheSidecarsThoughThatNamesNoneEither() {
    BootInstant now = new BootInstant(Duration.ofSeconds(99));
    Duration span = Duration.ofSeconds(58);
    BootTime until =
        BootTime.newBuilder().setSinceBoot(Durations.toWire(now.plus(span).sinceBoot())).build();
    Validity validity =
        Validity.newBuilder().setValidUntil(until).setValidFor(Durations.toWire(span)).build();
    KnownValidity known = new KnownValidity();
    known.takeIn(validity, Optional.of(now), new Present(now, now), "");
    assertTrue(known.nextQuestion().isPresent());
  }
}

package dev.leasehold.client.internal.clock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.BootInstant;
import java.time.Duration;
import org.junit.jupiter.api.Test;

class MacBootClockTest {
  private long monotonicMillis = 5_000;
  private long wallMillis = 1_000_000;
  private final MacBootClock clock =
      new MacBootClock(() -> monotonicMillis * 1_000_000, () -> wallMillis);

  /** The machine is awake for so long. */
  private void run(long millis) {
    monotonicMillis += millis;
    wallMillis += millis;
  }

  private void assertCounted(long millis) {
    assertEquals(new BootInstant(Duration.ofMillis(millis)), clock.earliest());
    assertTrue(clock.earliest().isBefore(clock.latest()), "the two enclose the present");
  }

  @Test
  void s3ASleepIsCounted() {
    run(1_000);
    assertCounted(1_000);
    wallMillis += 60_000;
    assertCounted(61_000);
    run(500);
    assertCounted(61_500);
  }

  @Test
  void s3AWallClockThatIsSetBackTakesNothingAway() {
    run(1_000);
    wallMillis -= 3_600_000;
    assertCounted(1_000);
    run(2_000);
    assertCounted(3_000);
    wallMillis += 60_000;
    assertCounted(63_000);
  }

  @Test
  void s21ItsBootIsNoSidecars() {
    assertEquals("", clock.bootId());
  }

  @Test
  void eachSystemHasItsClockOrSaysWhyNot() {
    assertInstanceOf(LinuxBootClock.class, BootClock.of("Linux"));
    assertInstanceOf(MacBootClock.class, BootClock.of("Mac OS X"));
    UnsupportedOperationException error =
        assertThrows(UnsupportedOperationException.class, () -> BootClock.of("Windows 11"));
    assertTrue(error.getMessage().startsWith("Leasehold's client needs Linux or macOS: Windows"));
  }
}

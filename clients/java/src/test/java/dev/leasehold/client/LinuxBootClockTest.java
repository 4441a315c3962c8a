package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class LinuxBootClockTest {
  @Test
  void s3TheBootClockNeverGoesBack() {
    LinuxBootClock clock = new LinuxBootClock();
    BootInstant first = clock.earliest();
    assertTrue(first.sinceBoot().compareTo(Duration.ZERO) > 0);
    assertFalse(clock.earliest().isBefore(first));
    assertTrue(clock.earliest().isBefore(clock.latest()), "the two enclose the present");
    assertFalse(clock.bootId().isEmpty());
  }

  @Test
  void s3AnInterruptedReaderDoesNotStopTheClock() {
    LinuxBootClock clock = new LinuxBootClock();
    Thread.currentThread().interrupt();
    BootInstant first = clock.earliest();
    assertTrue(Thread.interrupted());
    assertTrue(BootInstant.BOOT.isBefore(first));
    assertFalse(clock.earliest().isBefore(first));
  }

  @Test
  void aReadingIsSecondsAndHundredths() {
    BootInstant expected = new BootInstant(Duration.ofMillis(8_765_430));
    assertEquals(Optional.of(expected), LinuxBootClock.parse("8765.43 17000.00\n"));
  }

  @Test
  void nonsenseIsNoReading() {
    for (String text : new String[] {"", "8765", "8765.4 1", "x.yz 1", "1 2.34"}) {
      assertEquals(Optional.empty(), LinuxBootClock.parse(text), text);
    }
  }
}

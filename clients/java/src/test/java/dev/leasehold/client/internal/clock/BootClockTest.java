package dev.leasehold.client.internal.clock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.BootInstant;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class BootClockTest {
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
  void aReadingIsSecondsAndHundredthsAndNonsenseIsNone() {
    BootInstant expected = new BootInstant(Duration.ofMillis(8_765_430));
    assertEquals(Optional.of(expected), LinuxBootClock.parse("8765.43 17000.00\n"));
    for (String text : new String[] {"", "8765", "8765.4 1", "x.yz 1", "1 2.34"}) {
      assertEquals(Optional.empty(), LinuxBootClock.parse(text), text);
    }
  }

  private static final String ZERO =
      "monotonic           7         0\nboottime            0         0\n";

  @Test
  void s21AClockThatATimeNamespaceShiftsIsNotTheKernels(@TempDir Path folder) throws IOException {
    String one = "time:[1]";
    assertFalse(isShifted(folder, ZERO, one, one));
    assertFalse(isShifted(folder, null, null, null));
    assertTrue(isShifted(folder, "monotonic 0 0\nboottime 9 0\n", one, one));
    assertTrue(isShifted(folder, "boottime -1 500000000\n", one, one));
    assertTrue(isShifted(folder, ZERO, one, "time:[2]"));
    assertTrue(isShifted(folder, ZERO, null, null));
    assertTrue(isShifted(folder, null, one, one));
    assertTrue(isShifted(folder, "nonsense", one, one));
  }

  /** With what the kernel tells a process of itself. */
  private static boolean isShifted(Path folder, String offsets, String ours, String ofChildren)
      throws IOException {
    Path process = Files.createTempDirectory(folder, "process");
    Files.createDirectory(process.resolve("ns"));
    if (offsets != null) {
      Files.writeString(process.resolve("timens_offsets"), offsets);
    }
    if (ours != null) {
      Files.createSymbolicLink(process.resolve("ns/time"), Path.of(ours));
      Files.createSymbolicLink(process.resolve("ns/time_for_children"), Path.of(ofChildren));
    }
    return LinuxBootClock.isShifted(process);
  }

  private long monotonicMillis = 5_000;
  private long wallMillis = 1_000_000;
  private final MacBootClock mac =
      new MacBootClock(() -> monotonicMillis * 1_000_000, () -> wallMillis);

  /** The machine is awake for so long. */
  private void run(long millis) {
    monotonicMillis += millis;
    wallMillis += millis;
  }

  private void assertCounted(long millis) {
    assertEquals(new BootInstant(Duration.ofMillis(millis)), mac.earliest());
    assertTrue(mac.earliest().isBefore(mac.latest()), "the two enclose the present");
  }

  @Test
  void s3ASleepIsCountedAndAWallClockThatIsSetBackTakesNothingAway() {
    run(1_000);
    assertCounted(1_000);
    wallMillis += 60_000;
    assertCounted(61_000);
    run(500);
    assertCounted(61_500);
    wallMillis -= 3_600_000;
    assertCounted(61_500);
    run(2_000);
    assertCounted(63_500);
    wallMillis += 60_000;
    assertCounted(123_500);
    assertEquals("", mac.bootId(), "S21: its boot is no sidecar's");
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

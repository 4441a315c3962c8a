package dev.leasehold.client.internal.clock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.BootInstant;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

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
}

package dev.leasehold.client.internal.clock;

import dev.leasehold.client.BootInstant;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.regex.Pattern;

/**
 * Linux's boot clock (S3), read from /proc/uptime: the JDK's clocks stop while the machine sleeps,
 * or follow the wall clock. The only class here that tells how long a hold lasts.
 */
final class LinuxBootClock implements BootClock {
  private static final Path UPTIME = Path.of("/proc/uptime");
  private static final Path BOOT_ID = Path.of("/proc/sys/kernel/random/boot_id");
  private static final Path PROCESS = Path.of("/proc/self");
  private static final Pattern NO_SHIFT = Pattern.compile("(?m)^\\h*boottime\\h+0\\h+0\\h*$");

  /** The kernel cuts the reading to hundredths of a second. */
  private static final Duration GRAIN = Duration.ofMillis(10);

  private final String bootId;

  /** Kept open. Not a FileChannel: an interrupted reader would close that for everybody. */
  private final RandomAccessFile uptime;

  private final byte[] buffer = new byte[64];

  /**
   * Opens the clock.
   *
   * @throws UnsupportedOperationException where there is none
   */
  LinuxBootClock() {
    try {
      uptime = new RandomAccessFile(UPTIME.toFile(), "r");
    } catch (IOException error) {
      throw new UnsupportedOperationException(
          "this machine has no "
              + UPTIME
              + ", and without a clock that counts while the machine sleeps"
              + " nobody can know whether a lock is still held: run on Linux",
          error);
    }
    bootId = readBootId();
  }

  private static String readBootId() {
    return isShifted(PROCESS) ? "" : told(() -> Files.readString(BOOT_ID).trim()).orElse("");
  }

  /**
   * Whether a time namespace shifts the clock of this process, or may: processes of other
   * namespaces then read another clock under the same boot id (S21).
   */
  static boolean isShifted(Path process) {
    Optional<String> offsets = told(() -> Files.readString(process.resolve("timens_offsets")));
    Optional<String> ours = link(process.resolve("ns/time"));
    if (offsets.isEmpty() && ours.isEmpty()) {
      // A kernel without time namespaces.
      return false;
    }
    // The kernel tells the shift of the namespace that children get.
    boolean isOurs = ours.isPresent() && ours.equals(link(process.resolve("ns/time_for_children")));
    return !isOurs || offsets.filter(text -> NO_SHIFT.matcher(text).find()).isEmpty();
  }

  private static Optional<String> link(Path path) {
    return told(() -> Files.readSymbolicLink(path).toString());
  }

  private static Optional<String> told(Reading reading) {
    try {
      return Optional.of(reading.read());
    } catch (IOException unreadable) {
      return Optional.empty();
    }
  }

  @FunctionalInterface
  private interface Reading {
    String read() throws IOException;
  }

  @Override
  public BootInstant latest() {
    // Were it unreadable, the latest of all moments would only end holds.
    return read().map(reading -> reading.plus(GRAIN)).orElse(new BootInstant(Durations.LONGEST));
  }

  @Override
  public BootInstant earliest() {
    return read().orElse(BootInstant.BOOT);
  }

  @Override
  public String bootId() {
    return bootId;
  }

  private synchronized Optional<BootInstant> read() {
    try {
      uptime.seek(0);
      int length = Math.max(uptime.read(buffer), 0);
      return parse(new String(buffer, 0, length, StandardCharsets.US_ASCII));
    } catch (IOException unreadable) {
      return Optional.empty();
    }
  }

  /** Reads {@code 1234.56 …}: whole seconds and hundredths. */
  static Optional<BootInstant> parse(String text) {
    int point = text.indexOf('.');
    int end = text.indexOf(' ');
    if (point < 0 || end != point + 3) {
      return Optional.empty();
    }
    try {
      long seconds = Long.parseLong(text, 0, point, 10);
      long hundredths = Long.parseLong(text, point + 1, end, 10);
      return Optional.of(
          new BootInstant(Duration.ofSeconds(seconds, hundredths * GRAIN.toNanos())));
    } catch (NumberFormatException nonsense) {
      return Optional.empty();
    }
  }
}

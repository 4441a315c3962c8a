package dev.leasehold.client.internal.clock;

import dev.leasehold.client.BootInstant;
import java.util.Locale;

/**
 * Where the time comes from: the machine, or a test.
 *
 * <p>A reading may be coarse. It is told as the two moments that the present lies between, and each
 * use takes the one that is safe for it.
 */
public interface BootClock {
  /** The present moment or a little later: for asking whether something is over. */
  BootInstant latest();

  /** The present moment or a little earlier: for counting a duration from. */
  BootInstant earliest();

  /** A reading: the present lies between the two. */
  record Present(BootInstant earliest, BootInstant latest) {}

  /** A reading, for uses of both kinds. */
  default Present present() {
    return new Present(earliest(), latest());
  }

  /**
   * Whose boot it counts from; empty if that is not known, or a time namespace shifts the clock.
   */
  String bootId();

  /**
   * The clock of this machine.
   *
   * @throws UnsupportedOperationException where there is none that counts while it sleeps
   */
  static BootClock ofMachine() {
    return of(System.getProperty("os.name", ""));
  }

  /** The clock of a machine with this operating system. */
  static BootClock of(String system) {
    String name = system.toLowerCase(Locale.ROOT);
    if (name.startsWith("linux")) {
      return new LinuxBootClock();
    }
    if (name.startsWith("mac")) {
      return new MacBootClock(System::nanoTime, System::currentTimeMillis);
    }
    throw new UnsupportedOperationException(
        "Leasehold's client needs Linux or macOS: "
            + system
            + " has no clock that it can read and that counts while the machine sleeps, without"
            + " which nobody knows whether a lock is still held");
  }
}

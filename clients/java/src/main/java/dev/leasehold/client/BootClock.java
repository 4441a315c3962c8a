package dev.leasehold.client;

/**
 * Where the time comes from: the machine, or a test.
 *
 * <p>A reading may be coarse. It is told as the two moments that the present lies between, and each
 * use takes the one that is safe for it.
 */
interface BootClock {
  /** The present moment or a little later: for asking whether something is over. */
  BootInstant latest();

  /** The present moment or a little earlier: for counting a span from. */
  BootInstant earliest();

  /** Whose boot it counts from; empty if the kernel does not tell. */
  String bootId();
}

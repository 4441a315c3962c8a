package dev.leasehold.samples;

import dev.leasehold.client.Hold;
import dev.leasehold.client.LeaseSpec;
import dev.leasehold.client.LeaseholdClient;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * Adds one to the number in a file many times, under a lock, among others that do the same: {@code
 * contend FILE TIMES}. No increment may be lost, and FILE.token, the greatest fencing token that
 * the file has seen, must grow.
 */
public final class Contend {
  private Contend() {}

  /**
   * Runs the sample.
   *
   * @param arguments the file and how many times
   * @throws Exception when the lock or the file fails
   */
  public static void main(String[] arguments) throws Exception {
    if (arguments.length != 2) {
      System.err.println("usage: contend FILE TIMES");
      System.exit(64);
    }
    try (LeaseholdClient client = LeaseholdClient.fromEnvironment()) {
      contend(client, Path.of(arguments[0]), Integer.parseInt(arguments[1]));
    }
  }

  /**
   * Adds one that often.
   *
   * @param client the client
   * @param file the file with the number
   * @param times how often
   * @return the fencing tokens of the holds
   * @throws IOException when the file cannot be read or written
   * @throws InterruptedException when the thread is interrupted
   */
  public static List<Long> contend(LeaseholdClient client, Path file, int times)
      throws IOException, InterruptedException {
    LeaseSpec spec = LeaseSpec.of("contend").waitWithoutEnd();
    Path tokenFile = Path.of(file + ".token");
    List<Long> tokens = new ArrayList<>();
    for (int done = 0; done < times; done++) {
      try (Hold hold = client.hold(spec)) {
        long number = read(file);
        if (hold.fencingToken() <= read(tokenFile)) {
          throw new IOException("the file has seen a fencing token as great as ours");
        }
        if (!hold.isValid()) {
          throw new IOException("the lock was lost");
        }
        Files.writeString(tokenFile, hold.fencingToken() + "\n");
        Files.writeString(file, (number + 1) + "\n");
        tokens.add(hold.fencingToken());
      }
    }
    return tokens;
  }

  private static long read(Path file) throws IOException {
    return Files.exists(file) ? Long.parseLong(Files.readString(file).strip()) : 0;
  }
}

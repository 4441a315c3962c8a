package dev.leasehold.samples;

import dev.leasehold.client.BusyException;
import dev.leasehold.client.Hold;
import dev.leasehold.client.HoldEvent;
import dev.leasehold.client.LeaseSpec;
import dev.leasehold.client.LeaseholdClient;
import dev.leasehold.client.LostException;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;

/**
 * Runs a command under a lock: {@code run FUNCTION -- COMMAND…}. It is asked to end when the lock
 * is at risk, and killed when the lock is lost. Exits with the command's code, with 75 if somebody
 * else has the lock, with 76 if it was lost.
 */
public final class RunCommand {
  private static final int BUSY = 75;
  private static final int LOST = 76;

  private final List<String> command;
  private Process process;

  private RunCommand(List<String> command) {
    this.command = command;
  }

  /**
   * Runs the sample.
   *
   * @param arguments the function, two dashes, the command
   * @throws Exception when the sidecar cannot be reached, or the command not be started
   */
  public static void main(String[] arguments) throws Exception {
    if (arguments.length < 3 || !arguments[1].equals("--")) {
      System.err.println("usage: run FUNCTION -- COMMAND...");
      System.exit(64);
    }
    List<String> command = Arrays.asList(arguments).subList(2, arguments.length);
    System.exit(new RunCommand(command).under(LeaseSpec.of(arguments[0])));
  }

  private int under(LeaseSpec spec) throws IOException, InterruptedException {
    // Whatever ends this process ends the command first, while the lock is still held.
    Runtime.getRuntime().addShutdownHook(new Thread(this::kill));
    try (LeaseholdClient client = LeaseholdClient.fromEnvironment()) {
      return client.<Integer, IOException>withHold(spec, this::hear, this::run);
    } catch (BusyException busy) {
      System.err.println(busy.getMessage());
      return BUSY;
    } catch (LostException lost) {
      System.err.println(lost.getMessage());
      return LOST;
    }
  }

  private int run(Hold hold) throws IOException, InterruptedException {
    try {
      return start(hold.fencingToken()).waitFor();
    } finally {
      // Interrupted by the loss: it must not go on.
      kill();
    }
  }

  private synchronized Process start(long fencingToken) throws IOException {
    ProcessBuilder builder = new ProcessBuilder(command).inheritIO();
    builder.environment().put("LEASEHOLD_FENCING_TOKEN", Long.toString(fencingToken));
    process = builder.start();
    return process;
  }

  private synchronized void hear(HoldEvent event) {
    if (event instanceof HoldEvent.AtRisk && process != null) {
      process.destroy();
    }
  }

  private synchronized void kill() {
    if (process != null) {
      process.descendants().forEach(ProcessHandle::destroyForcibly);
      process.destroyForcibly();
    }
  }
}

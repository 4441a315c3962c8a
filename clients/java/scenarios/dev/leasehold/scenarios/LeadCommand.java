package dev.leasehold.scenarios;

import dev.leasehold.client.Hold;
import dev.leasehold.client.LeaseholdClient;
import java.util.Map;
import java.util.concurrent.CountDownLatch;

/** Leads, and stays in each term until it is lost or the command is stopped. */
final class LeadCommand {
  private final Command command;
  private final Output output;
  private Thread leading;
  private boolean stopped;

  LeadCommand(Command command, Output output) {
    this.command = command;
    this.output = output;
  }

  void run(LeaseholdClient client) {
    start();
    try {
      client.lead(command.request(), this::term);
    } catch (InterruptedException ended) {
      output.event(command.id(), "stopped_leading");
    } catch (RuntimeException error) {
      output.failure(command.id(), error);
    }
  }

  private Void term(Hold term) throws InterruptedException {
    output.event(command.id(), "leading", Map.of("token", term.fencingToken()));
    try {
      new CountDownLatch(1).await();
      return null;
    } catch (InterruptedException ended) {
      if (!term.isValid()) {
        output.event(command.id(), "term_ended");
      }
      throw ended;
    }
  }

  private synchronized void start() {
    leading = Thread.currentThread();
    if (stopped) {
      leading.interrupt();
    }
  }

  /** Stops leading, also while it waits. */
  synchronized void stop() {
    stopped = true;
    if (leading != null) {
      leading.interrupt();
    }
  }
}

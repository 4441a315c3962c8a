package dev.leasehold.driver;

import dev.leasehold.client.Hold;
import dev.leasehold.client.HoldEvent;
import dev.leasehold.client.HoldLostException;
import dev.leasehold.client.LeaseholdClient;
import dev.leasehold.client.NotReleasedException;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;

/** A hold by the block form, which stays in its block until it is told otherwise. */
final class HoldCommand {
  /** What ends a block on {@code fail}. */
  private static final class Boom extends Exception {
    private static final long serialVersionUID = 1L;

    Boom() {
      super("boom");
    }
  }

  private final Command command;
  private final Output output;
  private final CountDownLatch told = new CountDownLatch(1);
  private volatile boolean fails;
  private volatile Hold held;
  private Thread waiting;
  private boolean cancelled;
  private volatile boolean interrupted;

  HoldCommand(Command command, Output output) {
    this.command = command;
    this.output = output;
  }

  void run(LeaseholdClient client) {
    start();
    String id = command.id();
    try {
      if (command.text("form").equals("scope")) {
        stayInScope(client);
      } else {
        client.withHold(command.request(), this::tell, this::stay);
      }
      output.event(id, "released");
    } catch (Boom boom) {
      output.event(id, "failed", Map.of("error", boom.getMessage()));
    } catch (HoldLostException lost) {
      String reason = lost.loss().reasonName();
      output.event(id, "lost", Map.of("reason", reason, "detail", lost.loss().detail()));
    } catch (InterruptedException stopped) {
      output.event(id, interrupted ? "interrupted_outside" : "aborted");
    } catch (NotReleasedException unconfirmed) {
      output.event(id, "release_unconfirmed");
    } catch (RuntimeException error) {
      output.failure(id, error);
    }
  }

  private void stayInScope(LeaseholdClient client) throws Boom, InterruptedException {
    try (Hold hold = client.hold(command.request(), this::tell)) {
      stay(hold);
    }
  }

  private Void stay(Hold hold) throws Boom, InterruptedException {
    String id = command.id();
    held = hold;
    output.event(
        id,
        "granted",
        Map.of(
            "token", hold.fencingToken(),
            "lease_id", hold.leaseId(),
            "lock_path", hold.lockPath()));
    try {
      told.await();
    } catch (InterruptedException stopped) {
      if (!hold.isValid()) {
        output.event(id, "cancelled");
      }
      throw stopped;
    }
    if (fails) {
      throw new Boom();
    }
    return null;
  }

  private void tell(HoldEvent event) {
    String id = command.id();
    if (event instanceof HoldEvent.Waiting waiting) {
      output.event(id, "waiting", Map.of("place", waiting.place()));
    } else if (event instanceof HoldEvent.AtRisk) {
      output.event(id, "at_risk");
    } else if (event instanceof HoldEvent.Recovered) {
      output.event(id, "recovered");
    } else if (event instanceof HoldEvent.Draining) {
      output.event(id, "draining");
    } else if (event instanceof HoldEvent.Interrupted) {
      output.event(id, "interrupted");
    } else if (event instanceof HoldEvent.Resumed) {
      output.event(id, "resumed");
    }
  }

  /** Leaves the block, normally or by an exception. */
  void leave(boolean failing) {
    fails = failing;
    told.countDown();
  }

  private synchronized void start() {
    waiting = Thread.currentThread();
    if (cancelled) {
      waiting.interrupt();
    }
  }

  /** Cancels the waiting call. */
  synchronized void cancel() {
    cancelled = true;
    if (waiting != null) {
      waiting.interrupt();
    }
  }

  /** Interrupts the block from outside, which is no loss. */
  synchronized void interrupt() {
    interrupted = true;
    waiting.interrupt();
  }

  /** The hold, once it is granted. */
  Optional<Hold> held() {
    return Optional.ofNullable(held);
  }
}

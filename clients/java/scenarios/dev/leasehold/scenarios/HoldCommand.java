package dev.leasehold.scenarios;

import dev.leasehold.client.Checkpoint;
import dev.leasehold.client.CheckpointUnknownException;
import dev.leasehold.client.Hold;
import dev.leasehold.client.HoldEvent;
import dev.leasehold.client.LeaseholdClient;
import dev.leasehold.client.LostException;
import dev.leasehold.client.Reason;
import dev.leasehold.client.RefusedException;
import dev.leasehold.client.ReleaseUnconfirmedException;
import dev.leasehold.v1.CheckpointOutcome;
import dev.leasehold.v1.GetHoldResponse;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
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

  /** What to release with. */
  private volatile Optional<String> checkpoint = Optional.empty();

  private volatile Optional<CheckpointOutcome> outcome = Optional.empty();
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
      output.event(id, "released", checkpointOutcome());
    } catch (Boom boom) {
      output.event(id, "failed", Map.of("error", boom.getMessage()));
    } catch (LostException lost) {
      String reason = lost.loss().reasonName();
      output.event(id, "lost", Map.of("reason", reason, "detail", lost.loss().detail()));
    } catch (InterruptedException stopped) {
      output.event(id, interrupted ? "interrupted_outside" : "aborted");
    } catch (ReleaseUnconfirmedException unconfirmed) {
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
    Map<String, Object> granted = new HashMap<>();
    granted.put("token", hold.fencingToken());
    granted.put("lease_id", hold.leaseId());
    granted.put("lock_path", hold.lockPath());
    granted.put("permit", hold.permit());
    granted.put("checkpoint", hold.checkpoint().map(Checkpoint::text).orElse(null));
    output.event(id, "granted", granted);
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
    checkpoint.ifPresent(last -> outcome = Optional.of(hold.release(last).getCheckpointOutcome()));
    return null;
  }

  /** What became of the checkpoint that the release carried, if it did. */
  private Map<String, String> checkpointOutcome() {
    return outcome
        .map(CheckpointOutcome::name)
        .map(name -> name.substring("CHECKPOINT_OUTCOME_".length()).toLowerCase(Locale.ROOT))
        .map(name -> Map.of("checkpoint", name))
        .orElse(Map.of());
  }

  /** Saves a checkpoint, and tells what became of it. */
  void save(String value) throws InterruptedException {
    String id = command.id();
    try {
      long version = held.save(value);
      output.event(id, "saved", Map.of("version", version));
    } catch (LostException lost) {
      saveFailed(Reason.HOLD_LOST.name());
    } catch (CheckpointUnknownException unknown) {
      saveFailed(Reason.CHECKPOINT_UNKNOWN.name());
    } catch (RefusedException refusal) {
      saveFailed(refusal.reasonName().orElse(refusal.code().name()));
    }
  }

  private void saveFailed(String reason) {
    output.event(command.id(), "save_failed", Map.of("reason", reason));
  }

  /** What the sidecar knows of the hold. */
  void info() throws InterruptedException {
    GetHoldResponse info = held.info();
    String state = info.getState().name().substring("HOLD_STATE_".length());
    long token = info.getFencingToken();
    output.event(command.id(), "info", Map.of("state", state, "token", token));
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
    } else if (event instanceof HoldEvent.Revoked revoked) {
      Map<String, Object> notice = new HashMap<>();
      notice.put("reason", revoked.notice().reason());
      OptionalInt priority = revoked.notice().forPriority();
      notice.put("for_priority", priority.isPresent() ? priority.getAsInt() : null);
      output.event(id, "revoked", notice);
    } else if (event instanceof HoldEvent.Interrupted) {
      output.event(id, "interrupted");
    } else if (event instanceof HoldEvent.Resumed) {
      output.event(id, "resumed");
    }
  }

  /** Leaves the block normally; releases with {@code last} first if it is there. */
  void release(Optional<String> last) {
    checkpoint = last;
    told.countDown();
  }

  /** Leaves the block by an exception. */
  void fail() {
    fails = true;
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

package dev.leasehold.scenarios;

import dev.leasehold.client.Completion;
import dev.leasehold.client.HoldEvent;
import dev.leasehold.client.LeaseholdClient;
import dev.leasehold.client.Run;
import dev.leasehold.client.Runs;
import dev.leasehold.client.ScheduleEvent;
import dev.leasehold.client.ScheduleSpec;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** Takes part in a schedule, and completes each run, or ends it, when it is told to. */
final class RunsCommand {
  private final Command command;
  private final Output output;
  private final BlockingQueue<String> outcomes = new LinkedBlockingQueue<>();
  private Thread running;
  private boolean cancelled;

  RunsCommand(Command command, Output output) {
    this.command = command;
    this.output = output;
  }

  void run(LeaseholdClient client) {
    start();
    String id = command.id();
    try (Runs runs = client.runs(request(), this::tell)) {
      while (true) {
        try (Run run = runs.next()) {
          complete(run);
        }
      }
    } catch (InterruptedException stopped) {
      output.event(id, "aborted");
    } catch (RuntimeException error) {
      output.failure(id, error);
    }
  }

  /** Runs a body that hangs: whatever becomes of its run, it ends when it is told to. */
  void hang(LeaseholdClient client) {
    start();
    String id = command.id();
    try {
      client.every(request(), this::tell, this::hang);
    } catch (InterruptedException stopped) {
      output.event(id, "aborted");
    } catch (RuntimeException error) {
      output.failure(id, error);
    }
  }

  private void hang(Run run) {
    tell(run);
    run.lost()
        .thenAccept(
            loss -> output.event(command.id(), "lost", Map.of("reason", loss.reasonName())));
    while (true) {
      try {
        outcomes.take();
        break;
      } catch (InterruptedException lost) {
        // What hangs hears nothing.
      }
    }
    stopIfCancelled();
  }

  /** A body that hangs has swallowed the interrupt of a cancellation: it is repeated at its end. */
  private synchronized void stopIfCancelled() {
    if (cancelled) {
      Thread.currentThread().interrupt();
    }
  }

  private ScheduleSpec request() {
    ScheduleSpec request =
        ScheduleSpec.of(command.text("function"))
            .every(command.millis("every_ms").orElseThrow())
            .backoff(command.millis("backoff_ms").orElseThrow());
    return command.millis("run_timeout_ms").map(request::runTimeout).orElse(request);
  }

  private void tell(Run run) {
    output.event(
        command.id(),
        "run",
        Map.of(
            "at", run.scheduledAt().getEpochSecond(),
            "attempt", run.attempt(),
            "token", run.fencingToken()));
  }

  private void complete(Run run) throws InterruptedException {
    String id = command.id();
    tell(run);
    String outcome = outcomes.take();
    Completion completion =
        switch (outcome) {
          case "SUCCEEDED" -> Completion.succeeded();
          case "RETURNED" -> Completion.returned();
          default -> Completion.failed("as it was told");
        };
    String result = run.complete(completion).getResult().name();
    String name = result.substring("COMPLETION_RESULT_".length());
    output.event(id, "completed", Map.of("result", name));
  }

  private void tell(ScheduleEvent event) {
    String id = command.id();
    if (event instanceof ScheduleEvent.Subscribed) {
      output.event(id, "subscribed");
    } else if (event instanceof ScheduleEvent.Interrupted) {
      output.event(id, "interrupted");
    } else if (event instanceof ScheduleEvent.OfRun ofRun) {
      if (ofRun.event() instanceof HoldEvent.Interrupted) {
        output.event(id, "interrupted");
      } else if (ofRun.event() instanceof HoldEvent.Resumed) {
        output.event(id, "resumed");
      }
    }
  }

  /** Completes the run that goes on, or the next one. */
  void complete(String outcome) {
    outcomes.add(outcome);
  }

  private synchronized void start() {
    running = Thread.currentThread();
    if (cancelled) {
      running.interrupt();
    }
  }

  /** Takes part no longer. */
  synchronized void cancel() {
    cancelled = true;
    if (running != null) {
      running.interrupt();
    }
  }
}

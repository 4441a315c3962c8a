package dev.leasehold.client.internal.runs;

import dev.leasehold.client.Completion;
import dev.leasehold.client.RefusedException;
import dev.leasehold.client.RunBody;
import dev.leasehold.client.internal.connect.Pacing;
import dev.leasehold.client.internal.errors.Refusals;

/** Runs something on each occurrence. */
public final class Every {
  private static final String TIMED_OUT = "stopped at its deadline";

  private final StreamRuns runs;
  private final Pacing pacing;

  /** Works off {@code runs}, and pauses by {@code pacing} after a failure. */
  public Every(StreamRuns runs, Pacing pacing) {
    this.runs = runs;
    this.pacing = pacing;
  }

  /** Goes on until this thread is interrupted, or trying again does not help. */
  public void run(RunBody body) throws InterruptedException {
    while (true) {
      StreamRun run;
      try {
        run = runs.next();
      } catch (RefusedException refusal) {
        if (!Refusals.mayPass(refusal)) {
          throw refusal;
        }
        pacing.rest(true);
        continue;
      }
      pacing.worked();
      try (run) {
        workOn(run, body);
      }
    }
  }

  private static void workOn(StreamRun run, RunBody body) throws InterruptedException {
    try {
      body.run(run);
      run.leave(false);
    } catch (InterruptedException interrupt) {
      run.leave(true);
      boolean stopped = !run.isLost();
      finish(run, Completion.returned(), true);
      if (stopped) {
        throw interrupt;
      }
      return;
    } catch (Exception failure) {
      run.leave(false);
      failed(run, failure);
      return;
    } catch (Error grave) {
      run.leave(false);
      finish(run, Completion.failed(grave.toString()), true);
      throw grave;
    }
    // Also of a run that was lost: it may count if nobody else was granted it since (T8).
    if (!run.isCompleted()) {
      run.finish(Completion.succeeded(), false);
    }
  }

  private static void failed(StreamRun run, Exception failure) throws InterruptedException {
    // Who was told to stop may say so in an exception of its own.
    boolean stopped = Thread.currentThread().isInterrupted();
    if (stopped && !run.isLost()) {
      finish(run, Completion.returned(), true);
      Thread.interrupted();
      InterruptedException told = new InterruptedException("stopped while a run went on");
      told.initCause(failure);
      throw told;
    }
    finish(run, Completion.failed(failure.toString()), false);
  }

  /**
   * Unless the body has said it. Also of a run that was lost, which is returned, or has failed at
   * its deadline: until then, or on a new stream, its sidecar grants nothing here (T24).
   */
  private static void finish(StreamRun run, Completion completion, boolean stopping) {
    if (run.isCompleted()) {
      return;
    }
    if (!run.isLost()) {
      run.finish(completion, stopping);
      return;
    }
    try {
      run.finish(
          run.isTimedOut() ? Completion.failedFinal(TIMED_OUT) : Completion.returned(), true);
    } catch (RefusedException refused) {
      // A new stream speaks as well.
      return;
    }
  }
}

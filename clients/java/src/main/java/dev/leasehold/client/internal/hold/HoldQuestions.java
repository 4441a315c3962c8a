package dev.leasehold.client.internal.hold;

import dev.leasehold.client.BootInstant;
import dev.leasehold.client.Constants;
import dev.leasehold.client.internal.clock.Durations;
import dev.leasehold.client.internal.connect.Calls;
import dev.leasehold.client.internal.connect.ClientContext;
import dev.leasehold.v1.GetHoldResponse;
import java.time.Duration;
import java.util.Optional;
import java.util.function.Consumer;

/** Asks the sidecar about a hold where its own words cannot be counted (S21). */
final class HoldQuestions {
  private static final Duration BETWEEN_QUESTIONS = Duration.ofMillis(200);

  private final ClientContext context;
  private final HoldState state;
  private final HoldLine line;
  private final Consumer<GetHoldResponse> onAnswer;
  private final Runnable next;
  private boolean asking;

  /**
   * {@code onAnswer} is told each answer, and {@code next} is run a little later, if the hold is
   * valid.
   */
  HoldQuestions(
      ClientContext context,
      HoldState state,
      HoldLine line,
      Consumer<GetHoldResponse> onAnswer,
      Runnable next) {
    this.context = context;
    this.state = state;
    this.line = line;
    this.onAnswer = onAnswer;
    this.next = next;
  }

  /** Asks if it is due; the time until it is, or {@code pause} if that is shorter. */
  Duration askIfDue(Duration pause) {
    Optional<Duration> due = state.untilNextQuestion();
    if (due.isEmpty() || isAsking()) {
      return pause;
    }
    if (!due.get().isZero()) {
      return Durations.shorter(due.get(), pause);
    }
    ask();
    return pause;
  }

  private synchronized boolean isAsking() {
    return asking;
  }

  private synchronized void asking(boolean now) {
    asking = now;
  }

  private void ask() {
    asking(true);
    BootInstant sent = context.clock().earliest();
    long generation = line.generation();
    line.calls()
        .getHold(line.leaseId(), generation, Constants.ANSWER_TIMEOUT)
        .whenComplete(
            (answer, error) -> {
              if (error == null) {
                state.takeIn(answer, sent);
                onAnswer.accept(answer);
              } else {
                // Anything but word of the loss is asked again, until the validity ends.
                line.takeIn(Calls.cause(error), generation);
              }
              askAgain();
            });
  }

  private void askAgain() {
    context.after(
        BETWEEN_QUESTIONS,
        () -> {
          asking(false);
          if (state.isValid()) {
            next.run();
          }
        });
  }
}

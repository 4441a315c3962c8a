package dev.leasehold.scenarios;

import dev.leasehold.client.Hold;
import dev.leasehold.client.LeaseSpec;
import dev.leasehold.client.LeaseholdClient;
import dev.leasehold.client.OccurrenceOverException;
import dev.leasehold.client.OutcomeNotRecordedException;
import dev.leasehold.v1.RunOutcome;
import java.time.Instant;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

/** Holds a lock for a named occurrence, and releases it with the outcome, if there is one. */
final class OccurrenceCommand {
  private static final String PREFIX = "RUN_OUTCOME_";

  private OccurrenceCommand() {}

  static void run(LeaseholdClient client, Command command, Output output)
      throws InterruptedException {
    Instant at = Instant.ofEpochSecond(command.number("at"));
    LeaseSpec request = LeaseSpec.of(command.key()).occurrence(at);
    try (Hold hold = client.hold(request)) {
      boolean recorded = release(hold, command.optionalText("outcome"));
      Map<String, Object> told = Map.of("attempt", hold.attempt(), "recorded", recorded);
      output.event(command.id(), "released", told);
    } catch (OccurrenceOverException over) {
      Map<String, Object> told = new HashMap<>();
      told.put(
          "outcome",
          over.run().map(run -> run.getOutcome().name().substring(PREFIX.length())).orElse(null));
      output.event(command.id(), "over", told);
    }
  }

  private static boolean release(Hold hold, Optional<String> outcome) {
    if (outcome.isEmpty()) {
      hold.release();
      return false;
    }
    try {
      hold.release(RunOutcome.valueOf(PREFIX + outcome.get()));
      return true;
    } catch (OutcomeNotRecordedException unrecorded) {
      return false;
    }
  }
}

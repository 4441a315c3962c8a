package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.Timestamp;
import dev.leasehold.client.internal.errors.Refusals;
import dev.leasehold.v1.AlreadyDone;
import dev.leasehold.v1.Busy;
import dev.leasehold.v1.BusyReason;
import dev.leasehold.v1.EndedRun;
import dev.leasehold.v1.LockRecord;
import dev.leasehold.v1.LossReason;
import dev.leasehold.v1.OutcomeResult;
import dev.leasehold.v1.PriorityStatus;
import dev.leasehold.v1.ReleaseResult;
import dev.leasehold.v1.RunOutcome;
import dev.leasehold.v1.Skipped;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Errors are in the words that all clients use: each line of proto/vectors/words.jsonl. */
class WordsTest {
  private static final Path LIST = Path.of("../../proto/vectors/words.jsonl");

  @Test
  void whatIsSaidIsWhatAllClientsSay() throws IOException {
    List<String> lines = Files.readAllLines(LIST);
    assertTrue(lines.size() >= 20);
    for (String line : lines) {
      JsonObject words = JsonParser.parseString(line).getAsJsonObject();
      assertEquals(text(words, "says"), error(words).getMessage());
    }
  }

  private static String text(JsonObject words, String name) {
    return words.has(name) ? words.get(name).getAsString() : "";
  }

  private static LeaseholdException error(JsonObject words) {
    String cause = text(words, "cause");
    return switch (text(words, "error")) {
      case "busy" -> new BusyException(busy(words));
      case "lost" -> {
        LossReason reason = LossReason.valueOf("LOSS_REASON_" + text(words, "reason"));
        yield new LostException(new Loss(reason, text(words, "detail")));
      }
      case "release_unconfirmed" ->
          new ReleaseUnconfirmedException(text(words, "lock_path"), cause, null);
      case "checkpoint_unknown" -> new CheckpointUnknownException(new IOException(cause));
      case "occurrence_over" -> over(words);
      case "outcome_not_recorded" -> {
        OutcomeResult result = OutcomeResult.valueOf("OUTCOME_RESULT_" + text(words, "result"));
        yield new OutcomeNotRecordedException(
            ReleaseResult.newBuilder().setOutcomeResult(result).build());
      }
      case "endpoint" -> new EndpointException(text(words, "endpoint"), text(words, "problem"));
      case "protocol" -> new ProtocolException(text(words, "problem"));
      case "unsupported" -> Refusals.unknownCalls(text(words, "feature"));
      default -> throw new AssertionError(words);
    };
  }

  private static Busy busy(JsonObject words) {
    LockRecord record =
        LockRecord.newBuilder()
            .setLockPath(text(words, "lock_path"))
            .setHolder(text(words, "holder"))
            .setHolderIsLastRecorded(words.has("holder_is_last_recorded"))
            .build();
    Busy.Builder busy =
        Busy.newBuilder()
            .setRecord(record)
            .setReason(BusyReason.valueOf("BUSY_REASON_" + text(words, "reason")));
    if (words.has("held_permits")) {
      busy.setHeldPermits(words.get("held_permits").getAsInt());
    }
    if (words.has("priority_status")) {
      String status = "PRIORITY_STATUS_" + text(words, "priority_status");
      busy.setPriorityStatus(PriorityStatus.valueOf(status));
    }
    return busy.build();
  }

  private static OccurrenceOverException over(JsonObject words) {
    if (words.has("outcome")) {
      RunOutcome outcome = RunOutcome.valueOf("RUN_OUTCOME_" + text(words, "outcome"));
      EndedRun run = EndedRun.newBuilder().setOutcome(outcome).build();
      return OccurrenceOverException.of(AlreadyDone.newBuilder().setRun(run).build());
    }
    Skipped.Builder skipped = Skipped.newBuilder();
    if (words.has("watermark")) {
      long seconds = Instant.parse(text(words, "watermark")).getEpochSecond();
      skipped.setWatermark(Timestamp.newBuilder().setSeconds(seconds));
    }
    return OccurrenceOverException.of(skipped.build());
  }
}

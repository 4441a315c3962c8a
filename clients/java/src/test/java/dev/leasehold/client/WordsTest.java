package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.Any;
import com.google.protobuf.Message;
import com.google.rpc.BadRequest;
import com.google.rpc.RetryInfo;
import dev.leasehold.client.internal.clock.Durations;
import dev.leasehold.client.internal.errors.Refusals;
import dev.leasehold.v1.AlreadyDone;
import dev.leasehold.v1.Busy;
import dev.leasehold.v1.ErrorReason;
import dev.leasehold.v1.LossReason;
import dev.leasehold.v1.OutcomeResult;
import dev.leasehold.v1.ReleaseResult;
import dev.leasehold.v1.Skipped;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import java.io.IOException;
import java.nio.channels.ClosedChannelException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.EnumSet;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

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
    Said said = new Said("ours");
    return switch (text(words, "error")) {
      case "busy" -> {
        words.add("record", words.deepCopy());
        yield new BusyException((Busy) said.message(Busy.newBuilder(), words));
      }
      case "lost" -> {
        LossReason reason = LossReason.valueOf("LOSS_REASON_" + text(words, "reason"));
        yield new LostException(new Loss(reason, text(words, "detail")));
      }
      case "release_unconfirmed" ->
          new ReleaseUnconfirmedException(text(words, "lock_path"), cause, null);
      case "checkpoint_unknown" -> new CheckpointUnknownException(new IOException(cause));
      case "occurrence_over" -> {
        if (words.has("outcome")) {
          words.add("run", words.deepCopy());
          yield OccurrenceOverException.of(
              (AlreadyDone) said.message(AlreadyDone.newBuilder(), words));
        }
        String watermark = text(words, "watermark");
        if (!watermark.isEmpty()) {
          words.addProperty("watermark", Instant.parse(watermark).getEpochSecond());
        }
        yield OccurrenceOverException.of((Skipped) said.message(Skipped.newBuilder(), words));
      }
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

  private static RefusedException refusal(Status.Code code, String reason, Message... details) {
    String said = "code: " + code + ", message: no, reason: " + reason;
    com.google.rpc.Status status =
        StatusProto.fromThrowable(Said.error(Said.json(said))).toBuilder()
            .addAllDetails(Stream.of(details).map(Any::pack).toList())
            .build();
    return RefusedException.of(StatusProto.toStatusRuntimeException(status));
  }

  private static RefusedException broken(Status.Code code, String told, Throwable cause) {
    return RefusedException.of(
        code.toStatus().withDescription(told).withCause(cause).asRuntimeException());
  }

  @Test
  void s19WhatIsWrongIsHadAsData() {
    BadRequest.Builder details = BadRequest.newBuilder();
    details.addFieldViolationsBuilder().setField("spec.wait").setDescription("is 25 h");
    RefusedException refusal =
        refusal(Status.Code.INVALID_ARGUMENT, "INVALID_FIELD", details.build());
    assertEquals(Status.Code.INVALID_ARGUMENT, refusal.code());
    assertEquals(Optional.of(Reason.INVALID_FIELD), refusal.reason());
    assertEquals(List.of(new FieldViolation("spec.wait", "is 25 h")), refusal.violations());
    assertEquals("no", refusal.sidecarMessage());
    assertEquals("no; spec.wait: is 25 h", refusal.getMessage());
    RetryInfo later =
        RetryInfo.newBuilder().setRetryDelay(Durations.toWire(Duration.ofSeconds(3))).build();
    refusal = refusal(Status.Code.UNAVAILABLE, "STORE_THROTTLED", later);
    assertEquals(Optional.of(Duration.ofSeconds(3)), refusal.retryAfter());
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 9_999})
  void s33ABusyLockTellsThePriorityStatusThatItKnows(int unknown) {
    Busy busy = Busy.newBuilder().setPriorityStatusValue(unknown).setHeldPermits(3).build();
    BusyException told = new BusyException(busy);
    assertEquals(Optional.empty(), told.priorityStatus());
    assertFalse(told.getMessage().contains("priority"), told.getMessage());
    assertEquals(3, told.heldPermits());
  }

  @Test
  void anUnknownReasonKeepsItsNameAndEveryReasonOfTheApiIsKnown() {
    RefusedException refusal = refusal(Status.Code.INTERNAL, "NEW_ONE");
    assertEquals(Optional.of("NEW_ONE"), refusal.reasonName());
    assertEquals(Optional.empty(), refusal.reason());
    EnumSet<ErrorReason> unknown = EnumSet.allOf(ErrorReason.class);
    unknown.removeIf(reason -> Reason.of(reason).isPresent());
    assertEquals(
        EnumSet.of(ErrorReason.ERROR_REASON_UNSPECIFIED, ErrorReason.UNRECOGNIZED), unknown);
  }

  @Test
  void aBrokenConnectionSaysWhatItsCauseSays() {
    RefusedException refusal =
        broken(Status.Code.UNAVAILABLE, "io exception", new IOException("Connection refused"));
    assertEquals(Optional.empty(), refusal.reasonName());
    assertTrue(refusal.getMessage().contains("Connection refused"), refusal.getMessage());
    // What gRPC says of a call that meets the end of its connection.
    refusal = broken(Status.Code.UNKNOWN, "channel closed", new ClosedChannelException());
    assertEquals(Status.Code.UNAVAILABLE, refusal.code());
    assertTrue(Refusals.isBreak(refusal));
    assertTrue(refusal.getMessage().contains("channel closed"), refusal.getMessage());
    assertEquals(Status.Code.UNKNOWN, broken(Status.Code.UNKNOWN, "", null).code());
  }
}

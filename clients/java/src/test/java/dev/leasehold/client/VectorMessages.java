package dev.leasehold.client;

import com.google.gson.JsonObject;
import com.google.protobuf.Message;
import dev.leasehold.client.internal.clock.Durations;
import dev.leasehold.v1.AtRisk;
import dev.leasehold.v1.BootTime;
import dev.leasehold.v1.BreakNote;
import dev.leasehold.v1.Busy;
import dev.leasehold.v1.BusyReason;
import dev.leasehold.v1.Deadline;
import dev.leasehold.v1.Draining;
import dev.leasehold.v1.ErrorReason;
import dev.leasehold.v1.ExtendLeaseResponse;
import dev.leasehold.v1.GetHoldResponse;
import dev.leasehold.v1.Grant;
import dev.leasehold.v1.HoldLeaseResponse;
import dev.leasehold.v1.HoldState;
import dev.leasehold.v1.LossReason;
import dev.leasehold.v1.Lost;
import dev.leasehold.v1.Recovered;
import dev.leasehold.v1.ReleaseLeaseResponse;
import dev.leasehold.v1.ReleaseOutcome;
import dev.leasehold.v1.ReleaseResult;
import dev.leasehold.v1.Released;
import dev.leasehold.v1.Renewed;
import dev.leasehold.v1.ReportProgressResponse;
import dev.leasehold.v1.Revoked;
import dev.leasehold.v1.SaveCheckpointResponse;
import dev.leasehold.v1.Validity;
import dev.leasehold.v1.Waiting;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Consumer;

/** What a vector's sidecar says, on the clock of its kernel. */
final class VectorMessages {
  /**
   * What the clocks of the kernels read when a vector begins, in milliseconds. Two have our boot
   * id, and are not ours.
   */
  static final Map<String, Long> BASES =
      Map.of("ours", 1_000_000L, "elsewhere", 5_000_000L, "ahead", 3_000_000L, "behind", 500_000L);

  private final String kernel;

  VectorMessages(String kernel) {
    this.kernel = kernel;
  }

  long base() {
    return BASES.get(kernel);
  }

  static StatusRuntimeException error(JsonObject said) {
    Status.Code code = Status.Code.valueOf(text(said, "code", ""));
    if (!said.has("reason")) {
      return code.toStatus().withDescription("so it is").asRuntimeException();
    }
    Map<String, String> more = new HashMap<>();
    if (said.has("loss")) {
      more.put("loss_reason", text(said, "loss", ""));
    }
    if (said.has("needs")) {
      more.put("needs", said.get("needs").getAsString());
      more.put("revision", said.get("revision").getAsString());
    }
    return Messages.error(code, "so it is", text(said, "reason", ""), more);
  }

  private BootTime reading(long at) {
    return BootTime.newBuilder()
        .setBootId(kernel.equals("elsewhere") ? ManualClock.ELSEWHERE : ManualClock.OURS)
        .setSinceBoot(Durations.toWire(Duration.ofMillis(base() + at)))
        .build();
  }

  private static com.google.protobuf.Duration span(long milliseconds) {
    return Durations.toWire(Duration.ofMillis(milliseconds));
  }

  /** Has {@code set} take the validity, if one is said. */
  private void validity(JsonObject said, Consumer<Validity> set) {
    if (said.has("for")) {
      BootTime until = reading(number(said, "until", 0));
      set.accept(
          Validity.newBuilder()
              .setValidUntil(until)
              .setValidFor(span(number(said, "for", 0)))
              .build());
    }
  }

  private void maxHold(JsonObject said, Consumer<Deadline> set) {
    if (said.has("max_hold")) {
      JsonObject ends = said.getAsJsonObject("max_hold");
      set.accept(
          Deadline.newBuilder()
              .setAt(reading(number(ends, "at", 0)))
              .setAfter(span(number(ends, "after", 0)))
              .build());
    }
  }

  /** An event of a stream. */
  HoldLeaseResponse event(String name, JsonObject said) {
    HoldLeaseResponse.Builder event = HoldLeaseResponse.newBuilder();
    switch (name) {
      case "granted" -> event.setGranted(grant(said));
      case "waiting" ->
          event.setWaiting(Waiting.newBuilder().setPosition((int) number(said, "position", 0)));
      case "busy" ->
          event.setBusy(
              Busy.newBuilder()
                  .setReason(BusyReason.valueOf("BUSY_REASON_" + text(said, "reason", ""))));
      case "renewed" -> {
        Renewed.Builder renewed = Renewed.newBuilder().setResumeToken(text(said, "token", ""));
        validity(said, renewed::setValidity);
        maxHold(said, renewed::setMaxHoldEnds);
        event.setRenewed(renewed);
      }
      case "at_risk" -> {
        AtRisk.Builder risk =
            AtRisk.newBuilder()
                .setCause(ErrorReason.valueOf("ERROR_REASON_" + text(said, "cause", "")));
        validity(said, risk::setValidity);
        event.setAtRisk(risk);
      }
      case "recovered" -> {
        Recovered.Builder recovered = Recovered.newBuilder();
        validity(said, recovered::setValidity);
        event.setRecovered(recovered);
      }
      case "draining" ->
          event.setDraining(Draining.newBuilder().setTimeLeft(span(number(said, "left", 0))));
      case "revoked" -> {
        Revoked.Builder revoked = Revoked.newBuilder().setBreakNote(note(said));
        validity(said, revoked::setValidity);
        event.setRevoked(revoked);
      }
      case "lost" -> event.setLost(Lost.newBuilder().setReason(loss(text(said, "reason", ""))));
      case "released" -> event.setReleased(Released.newBuilder().setResult(result(said)));
      default -> throw new AssertionError("there is no event " + name);
    }
    return event.build();
  }

  private Grant grant(JsonObject said) {
    Grant.Builder grant =
        Grant.newBuilder()
            .setLeaseId("lease-1")
            .setResumeToken(text(said, "token", "resume-1"))
            .setLockPath("locks/p/h/f/s/FUNCTION")
            .setFencingToken(number(said, "fencing_token", 65_536))
            .setGeneration(number(said, "generation", 1));
    validity(said, grant::setValidity);
    maxHold(said, grant::setMaxHoldEnds);
    return grant.build();
  }

  /** An answer to a call. */
  Message answer(String name, JsonObject said) {
    switch (name) {
      case "release" -> {
        return ReleaseLeaseResponse.newBuilder().setResult(result(said)).build();
      }
      case "get_hold" -> {
        GetHoldResponse.Builder answer =
            GetHoldResponse.newBuilder()
                .setState(HoldState.valueOf("HOLD_STATE_" + text(said, "state", "HELD")));
        validity(said, answer::setValidity);
        maxHold(said, answer::setMaxHoldEnds);
        if (said.has("by")) {
          answer.setBreakNote(note(said));
        }
        return answer.build();
      }
      case "report_progress" -> {
        ReportProgressResponse.Builder answer = ReportProgressResponse.newBuilder();
        validity(said, answer::setValidity);
        return answer.build();
      }
      case "extend_lease" -> {
        ExtendLeaseResponse.Builder answer =
            ExtendLeaseResponse.newBuilder().setResumeToken(text(said, "token", ""));
        validity(said, answer::setValidity);
        maxHold(said, answer::setMaxHoldEnds);
        return answer.build();
      }
      case "save_checkpoint" -> {
        SaveCheckpointResponse.Builder answer =
            SaveCheckpointResponse.newBuilder().setVersion(number(said, "version", 0));
        validity(said, answer::setValidity);
        return answer.build();
      }
      default -> throw new AssertionError("there is no call " + name);
    }
  }

  private static BreakNote note(JsonObject said) {
    return BreakNote.newBuilder().setBrokenBy(text(said, "by", "")).build();
  }

  private static LossReason loss(String name) {
    return LossReason.valueOf("LOSS_REASON_" + name);
  }

  private static ReleaseResult result(JsonObject said) {
    return ReleaseResult.newBuilder()
        .setOutcome(ReleaseOutcome.valueOf("RELEASE_OUTCOME_" + text(said, "outcome", "")))
        .setLossReason(loss(text(said, "loss", "UNSPECIFIED")))
        .build();
  }

  static String text(JsonObject said, String name, String otherwise) {
    return said.has(name) ? said.get(name).getAsString() : otherwise;
  }

  static long number(JsonObject said, String name, long otherwise) {
    return said.has(name) ? said.get(name).getAsLong() : otherwise;
  }
}

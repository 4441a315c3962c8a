package dev.leasehold.client;

import com.google.gson.JsonObject;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import dev.leasehold.client.internal.clock.Durations;
import dev.leasehold.v1.BootTime;
import dev.leasehold.v1.BreakNote;
import dev.leasehold.v1.Deadline;
import dev.leasehold.v1.ExtendLeaseResponse;
import dev.leasehold.v1.GetHoldResponse;
import dev.leasehold.v1.Grant;
import dev.leasehold.v1.HoldLeaseResponse;
import dev.leasehold.v1.HoldState;
import dev.leasehold.v1.ReleaseLeaseResponse;
import dev.leasehold.v1.ReportProgressResponse;
import dev.leasehold.v1.SaveCheckpointResponse;
import dev.leasehold.v1.Validity;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;

/** What a vector's sidecar says, on the clock of its kernel. */
final class VectorMessages {
  /**
   * What the clocks of the kernels read when a vector begins, in milliseconds. Two have our boot
   * id, and are not ours.
   */
  static final Map<String, Long> BASES =
      Map.of("ours", 1_000_000L, "elsewhere", 5_000_000L, "ahead", 3_000_000L, "behind", 500_000L);

  /** Fields that a vector has other names for. */
  private static final Map<String, String> NAMES =
      Map.of(
          "for", "validity",
          "max_hold", "max_hold_ends",
          "left", "time_left",
          "by", "break_note",
          "token", "resume_token",
          "loss", "loss_reason");

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

  /** An event of a stream. */
  HoldLeaseResponse event(String name, JsonObject said) {
    HoldLeaseResponse.Builder event = HoldLeaseResponse.newBuilder();
    FieldDescriptor field = HoldLeaseResponse.getDescriptor().findFieldByName(name);
    Message.Builder of = name.equals("granted") ? grant() : event.newBuilderForField(field);
    return event.setField(field, filled(of, said)).build();
  }

  private static Grant.Builder grant() {
    return Grant.newBuilder()
        .setLeaseId("lease-1")
        .setResumeToken("resume-1")
        .setLockPath("locks/p/h/f/s/FUNCTION")
        .setFencingToken(65_536)
        .setGeneration(1);
  }

  /** An answer to a call. */
  Message answer(String name, JsonObject said) {
    return filled(
        switch (name) {
          case "release" -> ReleaseLeaseResponse.newBuilder();
          case "get_hold" -> GetHoldResponse.newBuilder().setState(HoldState.HOLD_STATE_HELD);
          case "report_progress" -> ReportProgressResponse.newBuilder();
          case "extend_lease" -> ExtendLeaseResponse.newBuilder();
          case "save_checkpoint" -> SaveCheckpointResponse.newBuilder();
          default -> throw new AssertionError("there is no call " + name);
        },
        said);
  }

  /** The message with what is said of it. */
  private Message filled(Message.Builder message, JsonObject said) {
    FieldDescriptor result = message.getDescriptorForType().findFieldByName("result");
    if (result != null) {
      return message.setField(result, filled(message.newBuilderForField(result), said)).build();
    }
    for (String name : said.keySet()) {
      String meant = NAMES.getOrDefault(name, name);
      FieldDescriptor field = message.getDescriptorForType().findFieldByName(meant);
      if (!name.equals("until")) {
        message.setField(field, value(field, said, name));
      }
    }
    return message.build();
  }

  private Object value(FieldDescriptor field, JsonObject said, String name) {
    return switch (name) {
      case "for" ->
          Validity.newBuilder()
              .setValidUntil(reading(number(said, "until", 0)))
              .setValidFor(span(number(said, "for", 0)))
              .build();
      case "max_hold" -> {
        JsonObject ends = said.getAsJsonObject("max_hold");
        yield Deadline.newBuilder()
            .setAt(reading(number(ends, "at", 0)))
            .setAfter(span(number(ends, "after", 0)))
            .build();
      }
      case "left" -> span(number(said, "left", 0));
      case "by" -> BreakNote.newBuilder().setBrokenBy(text(said, "by", "")).build();
      default ->
          switch (field.getJavaType()) {
            case ENUM -> {
              String kind = field.getEnumType().getName();
              String prefix = kind.replaceAll("(?<=[a-z])(?=[A-Z])", "_").toUpperCase(Locale.ROOT);
              yield field.getEnumType().findValueByName(prefix + "_" + text(said, name, ""));
            }
            case INT -> (int) number(said, name, 0);
            case LONG -> number(said, name, 0);
            default -> text(said, name, "");
          };
    };
  }

  static String text(JsonObject said, String name, String otherwise) {
    return said.has(name) ? said.get(name).getAsString() : otherwise;
  }

  static long number(JsonObject said, String name, long otherwise) {
    return said.has(name) ? said.get(name).getAsLong() : otherwise;
  }
}

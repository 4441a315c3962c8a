package dev.leasehold.client;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.Any;
import com.google.protobuf.ByteString;
import com.google.protobuf.Descriptors.EnumDescriptor;
import com.google.protobuf.Descriptors.EnumValueDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import com.google.protobuf.Timestamp;
import com.google.rpc.ErrorInfo;
import dev.leasehold.client.internal.clock.Durations;
import dev.leasehold.v1.BootTime;
import dev.leasehold.v1.BreakNote;
import dev.leasehold.v1.HoldLeaseRequest;
import dev.leasehold.v1.LeaseSpec;
import dev.leasehold.v1.Resume;
import dev.leasehold.v1.SubscribeScheduleRequest;
import dev.leasehold.v1.Validity;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** What a sidecar is asked and says, in the words of the vectors, on the clock of its kernel. */
final class Said {
  /**
   * What the clocks of the kernels read when a vector begins, in milliseconds. Two have our boot
   * id, and are not ours.
   */
  static final Map<String, Long> BASES =
      Map.of("ours", 1_000_000L, "elsewhere", 5_000_000L, "ahead", 3_000_000L, "behind", 500_000L);

  /** What fields are called, where that is not their name. */
  private static final Map<String, String> NAMES =
      Map.of(
          "validity", "for",
          "max_hold_ends", "max_hold",
          "time_left", "left",
          "break_note", "by",
          "resume_token", "token",
          "loss_reason", "loss");

  /** What is said of messages that say nothing else. */
  private static final Map<String, JsonObject> DEFAULTS =
      Map.of(
          "Grant",
          json(
              "lease_id: lease-1, token: resume-1, lock_path: 'locks/p/h/f/s/FUNCTION',"
                  + " fencing_token: 65536, generation: 1"),
          "Run",
          json("run_id: run-1, scheduled_at: 1800"),
          "Recorded",
          json("run_id: run-1"),
          "GetHoldResponse",
          json("state: HELD"));

  private final String kernel;
  private final List<String> attempts = new ArrayList<>();

  Said(String kernel) {
    this.kernel = kernel;
  }

  /** What stands between the braces of an object. */
  static JsonObject json(String words) {
    return JsonParser.parseString("{" + words + "}").getAsJsonObject();
  }

  static String text(JsonObject said, String name, String otherwise) {
    return said.has(name) ? said.get(name).getAsString() : otherwise;
  }

  static long number(JsonObject said, String name, long otherwise) {
    return said.has(name) ? said.get(name).getAsLong() : otherwise;
  }

  static StatusRuntimeException error(JsonObject said) {
    Status.Code code = Status.Code.valueOf(text(said, "code", ""));
    String message = text(said, "message", "so it is");
    if (!said.has("reason")) {
      return code.toStatus().withDescription(message).asRuntimeException();
    }
    ErrorInfo.Builder info =
        ErrorInfo.newBuilder().setDomain("leasehold.dev").setReason(text(said, "reason", ""));
    for (String name : List.of("loss", "needs", "revision")) {
      if (said.has(name)) {
        info.putMetadata(name.replace("loss", "loss_reason"), text(said, name, ""));
      }
    }
    return StatusProto.toStatusRuntimeException(
        com.google.rpc.Status.newBuilder()
            .setCode(code.value())
            .setMessage(message)
            .addDetails(Any.pack(info.build()))
            .build());
  }

  /** The message with what is said of it. */
  Message message(Message.Builder message, JsonObject said) {
    JsonObject defaults = DEFAULTS.get(message.getDescriptorForType().getName());
    if (defaults != null) {
      fill(message, defaults);
    }
    fill(message, said);
    return message.build();
  }

  private void fill(Message.Builder message, JsonObject said) {
    for (FieldDescriptor field : message.getDescriptorForType().getFields()) {
      String name = NAMES.getOrDefault(field.getName(), field.getName());
      boolean isMessage = field.getJavaType() == FieldDescriptor.JavaType.MESSAGE;
      if (isMessage && List.of("result", "grant").contains(name)) {
        // What is said of them stands beside what is said of this.
        message.setField(field, message(message.newBuilderForField(field), said));
      } else if (field.isRepeated() && said.has(name)) {
        for (JsonElement one : said.getAsJsonArray(name)) {
          message.addRepeatedField(field, value(message, field, one));
        }
      } else if (said.has(name)) {
        message.setField(
            field, name.equals("for") ? validity(said) : value(message, field, said.get(name)));
      }
    }
  }

  private Validity validity(JsonObject said) {
    return Validity.newBuilder()
        .setValidUntil(reading(number(said, "until", 0)))
        .setValidFor(span(number(said, "for", 0)))
        .build();
  }

  private BootTime reading(long at) {
    return BootTime.newBuilder()
        .setBootId(kernel.equals("elsewhere") ? ManualClock.ELSEWHERE : ManualClock.OURS)
        .setSinceBoot(span(BASES.get(kernel) + at))
        .build();
  }

  private static com.google.protobuf.Duration span(long milliseconds) {
    return Durations.toWire(Duration.ofMillis(milliseconds));
  }

  private Object value(Message.Builder of, FieldDescriptor field, JsonElement said) {
    return switch (field.getJavaType()) {
      case INT -> said.getAsInt();
      case LONG -> said.getAsLong();
      case BOOLEAN -> said.getAsBoolean();
      case BYTE_STRING -> ByteString.copyFromUtf8(said.getAsString());
      case ENUM ->
          said.getAsString().matches("\\d+")
              ? field.getEnumType().findValueByNumberCreatingIfUnknown(said.getAsInt())
              : field
                  .getEnumType()
                  .findValueByName(prefix(field.getEnumType()) + said.getAsString());
      case MESSAGE ->
          switch (field.getMessageType().getName()) {
            case "Duration" -> span(said.getAsLong());
            case "Timestamp" -> Timestamp.newBuilder().setSeconds(said.getAsLong()).build();
            case "BootTime" -> reading(said.getAsLong());
            default -> {
              if (said.isJsonObject()) {
                yield message(of.newBuilderForField(field), said.getAsJsonObject());
              }
              boolean isNote = field.getMessageType() == BreakNote.getDescriptor();
              yield isNote
                  ? BreakNote.newBuilder().setBrokenBy(said.getAsString()).build()
                  : of.newBuilderForField(field).build();
            }
          };
      default -> said.getAsString();
    };
  }

  private static String prefix(EnumDescriptor kind) {
    return kind.getName().replaceAll("(?<=[a-z])(?=[A-Z])", "_").toUpperCase(Locale.ROOT) + "_";
  }

  /** The name of a call, from its request. */
  static String name(Message request) {
    String name = request.getDescriptorForType().getName().replaceFirst("Request$", "");
    String words = name.replaceAll("(?<=[a-z])(?=[A-Z])", "_").toLowerCase(Locale.ROOT);
    return switch (words) {
      case "release_lease" -> "release";
      case "hold_lease" -> "hold";
      case "subscribe_schedule" -> "subscribe";
      default -> words;
    };
  }

  /** What was sent. */
  String sent(Message request) {
    if (request instanceof HoldLeaseRequest hold) {
      return needing(
          hold.getNeeds(), hold.hasResume() ? resume(hold.getResume()) : asked(hold.getSpec()));
    }
    if (request instanceof SubscribeScheduleRequest subscribe) {
      String again = subscribe.getReconnected() ? " reconnected" : "";
      String resume = subscribe.hasResume() ? " " + resume(subscribe.getResume()) : "";
      return needing(subscribe.getNeeds(), "subscribe" + again + resume);
    }
    StringBuilder sent = new StringBuilder(name(request));
    FieldDescriptor generation = request.getDescriptorForType().findFieldByName("generation");
    sent.append(generation == null ? "" : " " + request.getField(generation));
    request
        .getAllFields()
        .forEach(
            (field, value) -> {
              boolean isUsual = List.of("lease-1", "run-1").contains(value);
              if (!field.getName().equals("generation") && !isUsual) {
                sent.append(" ").append(words(value));
              }
            });
    return sent.toString();
  }

  private static Object words(Object value) {
    if (value instanceof EnumValueDescriptor constant) {
      return constant.getName().substring(prefix(constant.getType()).length());
    }
    if (value instanceof com.google.protobuf.Duration span) {
      return Durations.fromWire(span).toMillis();
    }
    return value instanceof ByteString bytes ? bytes.toStringUtf8() : value;
  }

  private static String needing(int revision, String sent) {
    return revision == 1 ? sent : sent + " that needs revision " + revision;
  }

  private synchronized String resume(Resume resume) {
    String told = "";
    if (resume.hasToldValidUntil()) {
      long until = Durations.fromWire(resume.getToldValidUntil().getSinceBoot()).toMillis();
      told = " told " + (until - BASES.get(kernel));
    }
    if (!attempts.contains(resume.getAttemptId())) {
      attempts.add(resume.getAttemptId());
    }
    int attempt = attempts.indexOf(resume.getAttemptId()) + 1;
    return "resume " + resume.getResumeToken() + told + " attempt " + attempt;
  }

  /** How a lock was asked for. */
  private static String asked(LeaseSpec spec) {
    long wait = Durations.fromWire(spec.getWait()).toMillis();
    return "hold"
        + (spec.getWaitWithoutEnd() ? " wait_without_end" : "")
        + (wait > 0 ? " wait " + wait : "")
        + (spec.getPermits() > 1 ? " permits " + spec.getPermits() : "")
        + (spec.getPriority() > 0 ? " priority " + spec.getPriority() : "")
        + (spec.getYields() ? " yields" : "")
        + (spec.getShare().isEmpty() ? "" : " share " + spec.getShare());
  }
}

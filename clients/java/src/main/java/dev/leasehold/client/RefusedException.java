package dev.leasehold.client;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Status;
import io.grpc.StatusException;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.nio.channels.ClosedChannelException;
import java.time.Duration;
import java.util.EnumSet;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import javax.net.ssl.SSLException;

/** The sidecar answered with an error, or the connection broke. */
public sealed class RefusedException extends LeaseholdException permits UnreachableException {
  private static final long serialVersionUID = 1L;

  /** The domain of the reasons in google.rpc.ErrorInfo. */
  private static final String DOMAIN = "leasehold.dev";

  /** Codes of a stream that something between the client and the sidecar has ended. */
  private static final Set<Status.Code> BREAKS =
      EnumSet.of(Status.Code.UNAVAILABLE, Status.Code.CANCELLED, Status.Code.INTERNAL);

  /** Codes of refusals that may pass, beside breaks of the connection. */
  private static final Set<Status.Code> PASSING =
      EnumSet.of(
          Status.Code.UNAVAILABLE,
          Status.Code.RESOURCE_EXHAUSTED,
          Status.Code.ABORTED,
          Status.Code.DEADLINE_EXCEEDED);

  /** The gRPC code. */
  private final Status.Code code;

  /** What was said, without the fields. */
  private final String sidecarMessage;

  /** The reason on the wire; null if none was given. */
  private final String reasonName;

  /** Why the hold is over; null if that was not said. */
  private final String lossReason;

  /** Whether the sidecar's revision is below what the request needs: then it has said both. */
  private final boolean belowNeeds;

  /** Null only in an exception that was serialized. */
  private final transient List<FieldViolation> violations;

  /** When to try again; null if that was not said. */
  private final Duration retryAfter;

  private RefusedException(
      Throwable cause,
      Status.Code code,
      String said,
      Details details,
      List<FieldViolation> violations) {
    super(describe(code, said, violations), cause);
    this.code = code;
    this.sidecarMessage = said;
    this.violations = violations;
    this.reasonName = details.info.map(ErrorInfo::getReason).orElse(null);
    this.lossReason =
        details.info.map(info -> info.getMetadataMap().get("loss_reason")).orElse(null);
    this.belowNeeds = details.info.filter(info -> info.containsMetadata("needs")).isPresent();
    this.retryAfter =
        details.retry.map(retry -> Durations.fromWire(retry.getRetryDelay())).orElse(null);
  }

  /** The sidecar did not answer. */
  RefusedException(Throwable cause, String said) {
    this(
        cause,
        Status.Code.UNAVAILABLE,
        said,
        new Details(Optional.empty(), Optional.empty(), Optional.empty()),
        List.of());
  }

  private record Details(
      Optional<ErrorInfo> info, Optional<BadRequest> badRequest, Optional<RetryInfo> retry) {}

  /** Understands what gRPC threw. */
  static RefusedException of(Throwable error) {
    Status status = told(Status.fromThrowable(error));
    Details details = details(error);
    String said = Optional.ofNullable(status.getDescription()).orElse("");
    if (status.getCode() == Status.Code.UNAVAILABLE && details.info.isEmpty()) {
      // No sidecar's words. Without the cause gRPC says little: "io exception".
      String cause = status.getCause() == null ? "" : ": " + status.getCause().getMessage();
      if (status.getCause() instanceof Unreached unreached) {
        String why = wantsCertificate(unreached.getCause()) + said + cause;
        return new UnreachableException(unreached.endpoint(), error, why);
      }
      said = wantsCertificate(status.getCause()) + "the sidecar does not answer: " + said + cause;
    }
    List<FieldViolation> violations =
        details.badRequest.stream()
            .flatMap(request -> request.getFieldViolationsList().stream())
            .map(violation -> new FieldViolation(violation.getField(), violation.getDescription()))
            .toList();
    return new RefusedException(error, status.getCode(), said, details, violations);
  }

  /**
   * A call that meets the end of its connection is UNKNOWN to gRPC, which is a broken connection.
   */
  private static Status told(Status status) {
    boolean closed =
        status.getCode() == Status.Code.UNKNOWN
            && status.getCause() instanceof ClosedChannelException;
    return closed
        ? Status.UNAVAILABLE.withDescription(status.getDescription()).withCause(status.getCause())
        : status;
  }

  /** A request that the sidecar would refuse because of this field, and that is not sent. */
  static RefusedException invalid(String field, String problem) {
    BadRequest details =
        BadRequest.newBuilder()
            .addFieldViolations(
                BadRequest.FieldViolation.newBuilder().setField(field).setDescription(problem))
            .build();
    String said = field + " " + problem;
    return made(Status.Code.INVALID_ARGUMENT, said, Reason.INVALID_FIELD, Any.pack(details));
  }

  /** The hold that a call is about was released by its holder, so the call is not sent. */
  static RefusedException released(String lockPath) {
    String said = "the hold of the lock " + lockPath + " was released";
    return made(Status.Code.FAILED_PRECONDITION, said, Reason.HOLD_RELEASED);
  }

  /** The sidecar does not have these calls (S37). */
  static RefusedException unknownCalls(String what) {
    return unsupported(what + ", because it is older than they are: update the sidecar");
  }

  /**
   * Says it plainly where an error is that of a sidecar without schedules, which says only that it
   * does not have the service (S37). One that has it, and no schedules, says why.
   */
  static Throwable knowingSchedules(Throwable error) {
    return knowing("schedules", error);
  }

  /** The same of a sidecar without checkpoints, which does not have the call (S37). */
  static Throwable knowingCheckpoints(Throwable error) {
    return knowing("checkpoints", error);
  }

  private static Throwable knowing(String what, Throwable error) {
    boolean isMissing =
        error instanceof RefusedException refusal
            && refusal.code == Status.Code.UNIMPLEMENTED
            && refusal.reasonName == null;
    return isMissing ? unknownCalls(what) : error;
  }

  /** The sidecar that has answered is too old (S37). */
  private static RefusedException unsupported(String what) {
    String said = "the sidecar does not know " + what;
    return made(Status.Code.UNIMPLEMENTED, said, Reason.UNSUPPORTED);
  }

  private static RefusedException made(
      Status.Code code, String said, Reason reason, Any... details) {
    ErrorInfo info = ErrorInfo.newBuilder().setDomain(DOMAIN).setReason(reason.name()).build();
    com.google.rpc.Status status =
        com.google.rpc.Status.newBuilder()
            .setCode(code.value())
            .setMessage(said)
            .addDetails(Any.pack(info))
            .addAllDetails(List.of(details))
            .build();
    return of(StatusProto.toStatusRuntimeException(status));
  }

  /** What to do, where the sidecar ended the connection because of our certificate. */
  private static String wantsCertificate(Throwable cause) {
    for (Throwable one = cause; one != null; one = one.getCause()) {
      String text = String.valueOf(one.getMessage()).toLowerCase(Locale.ROOT);
      boolean ours = text.contains("certificate") || text.contains("unknown_ca");
      if (one instanceof SSLException && text.contains("fatal alert") && ours) {
        return "the sidecar wants a client certificate that it trusts: ";
      }
    }
    return "";
  }

  private static Details details(Throwable error) {
    boolean byGrpc = error instanceof StatusRuntimeException || error instanceof StatusException;
    com.google.rpc.Status status = byGrpc ? StatusProto.fromThrowable(error) : null;
    List<Any> details = status == null ? List.of() : status.getDetailsList();
    return new Details(
        first(details, ErrorInfo.class).filter(info -> info.getDomain().equals(DOMAIN)),
        first(details, BadRequest.class),
        first(details, RetryInfo.class));
  }

  private static <T extends Message> Optional<T> first(List<Any> details, Class<T> wanted) {
    for (Any detail : details) {
      if (detail.is(wanted)) {
        try {
          return Optional.of(detail.unpack(wanted));
        } catch (InvalidProtocolBufferException garbled) {
          return Optional.empty();
        }
      }
    }
    return Optional.empty();
  }

  private static String describe(Status.Code code, String said, List<FieldViolation> violations) {
    StringBuilder text = new StringBuilder(said.isEmpty() ? code.name() : said);
    // The message names the first field at the most; the others must not stay unseen.
    for (FieldViolation violation : violations) {
      if (!said.contains(violation.field())) {
        text.append("; ").append(violation.field()).append(": ").append(violation.description());
      }
    }
    return text.toString();
  }

  /**
   * The gRPC code.
   *
   * @return the code
   */
  public Status.Code code() {
    return code;
  }

  /**
   * The reason that the sidecar gave.
   *
   * @return the reason; empty if the error did not come from a sidecar, as when a connection
   *     breaks, and for a reason that this version of the client does not know (see {@link
   *     #reasonName()})
   */
  public Optional<Reason> reason() {
    return reasonName().flatMap(Reason::parse);
  }

  /**
   * The reason that the sidecar gave, as it is on the wire.
   *
   * @return its name; empty if the error did not come from a sidecar
   */
  public Optional<String> reasonName() {
    return Optional.ofNullable(reasonName);
  }

  /** Whether the sidecar gave this reason. */
  boolean is(Reason reason) {
    return reason.name().equals(reasonName);
  }

  /**
   * Whether the connection broke, or the sidecar is being replaced: another may answer the same
   * call.
   */
  boolean isBreak() {
    return reasonName == null ? BREAKS.contains(code) : is(Reason.SHUTTING_DOWN);
  }

  /**
   * Whether another sidecar may serve what this one has refused, because it is older than the
   * request (S37).
   */
  boolean isBelowNeeds() {
    return belowNeeds;
  }

  /** Whether the same call may work soon. */
  boolean mayPass() {
    return isBreak() || PASSING.contains(code);
  }

  /**
   * What the sidecar said, without the fields that {@link #getMessage()} adds.
   *
   * @return text for people; empty if nothing was said
   */
  public String sidecarMessage() {
    return sidecarMessage;
  }

  /**
   * The fields that were wrong, with {@link Reason#INVALID_FIELD}.
   *
   * @return the fields
   */
  public List<FieldViolation> violations() {
    return violations == null ? List.of() : violations;
  }

  /**
   * When to try again.
   *
   * @return the time from the answer on, if it was said
   */
  public Optional<Duration> retryAfter() {
    return Optional.ofNullable(retryAfter);
  }

  /**
   * Why the hold is over, with {@link Reason#HOLD_LOST}.
   *
   * @return the name of a loss reason, {@code EXPIRED} and so on
   */
  public Optional<String> lossReason() {
    return Optional.ofNullable(lossReason);
  }
}

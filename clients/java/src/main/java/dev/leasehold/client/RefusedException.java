package dev.leasehold.client;

import com.google.rpc.ErrorInfo;
import dev.leasehold.client.internal.clock.Durations;
import dev.leasehold.client.internal.errors.ErrorDetails;
import dev.leasehold.client.internal.errors.Unreached;
import io.grpc.Status;
import java.nio.channels.ClosedChannelException;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import javax.net.ssl.SSLException;

/** The sidecar answered with an error, or the connection broke. */
public sealed class RefusedException extends LeaseholdException permits UnreachableException {
  private static final long serialVersionUID = 1L;

  /** The gRPC code. */
  private final Status.Code code;

  /** What was said, without the fields. */
  private final String sidecarMessage;

  /** The reason on the wire; null if none was given. */
  private final String reasonName;

  /** Why the hold is over; null if that was not said. */
  private final String lossReason;

  /** Null only in an exception that was serialized. */
  private final transient List<FieldViolation> violations;

  /** When to try again; null if that was not said. */
  private final Duration retryAfter;

  private RefusedException(
      Throwable cause,
      Status.Code code,
      String said,
      ErrorDetails details,
      List<FieldViolation> violations) {
    super(describe(code, said, violations), cause);
    this.code = code;
    this.sidecarMessage = said;
    this.violations = violations;
    this.reasonName = details.info().map(ErrorInfo::getReason).orElse(null);
    this.lossReason =
        details.info().map(info -> info.getMetadataMap().get("loss_reason")).orElse(null);
    this.retryAfter =
        details.retry().map(retry -> Durations.fromWire(retry.getRetryDelay())).orElse(null);
  }

  /** The sidecar did not answer. */
  RefusedException(Throwable cause, String said) {
    this(cause, Status.Code.UNAVAILABLE, said, ErrorDetails.NONE, List.of());
  }

  /**
   * For tests of code that uses a client.
   *
   * @param error what gRPC threw
   * @return the exception
   */
  public static RefusedException of(Throwable error) {
    Status status = told(Status.fromThrowable(error));
    ErrorDetails details = ErrorDetails.of(error);
    String said = Optional.ofNullable(status.getDescription()).orElse("");
    if (status.getCode() == Status.Code.UNAVAILABLE && details.info().isEmpty()) {
      // No sidecar's words. Without the cause gRPC says little: "io exception".
      String cause = status.getCause() == null ? "" : ": " + status.getCause().getMessage();
      if (status.getCause() instanceof Unreached unreached) {
        String why = wantsCertificate(unreached.getCause()) + said + cause;
        return new UnreachableException(unreached.endpoint(), error, why);
      }
      said = wantsCertificate(status.getCause()) + "the sidecar does not answer: " + said + cause;
    }
    List<FieldViolation> violations =
        details.badRequest().stream()
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

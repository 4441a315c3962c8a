package dev.leasehold.client.internal.errors;

import com.google.protobuf.Any;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import dev.leasehold.client.Reason;
import dev.leasehold.client.RefusedException;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;

/** What a refusal means for the client, and refusals of its own. */
public final class Refusals {
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

  private Refusals() {}

  /** A request that the sidecar would refuse because of this field, and that is not sent. */
  public static RefusedException invalid(String field, String problem) {
    BadRequest details =
        BadRequest.newBuilder()
            .addFieldViolations(
                BadRequest.FieldViolation.newBuilder().setField(field).setDescription(problem))
            .build();
    String said = field + " " + problem;
    return made(Status.Code.INVALID_ARGUMENT, said, Reason.INVALID_FIELD, Any.pack(details));
  }

  /** The hold that a call is about was released by its holder, so the call is not sent. */
  public static RefusedException released(String lockPath) {
    String said = "the hold of the lock " + lockPath + " was released";
    return made(Status.Code.FAILED_PRECONDITION, said, Reason.HOLD_RELEASED);
  }

  /** The sidecar does not have these calls (S37). */
  public static RefusedException unknownCalls(String what) {
    return unsupported(what + ", because it is older than they are: update the sidecar");
  }

  /**
   * Says it plainly where an error is that of a sidecar without schedules, which says only that it
   * does not have the service (S37). One that has it, and no schedules, says why.
   */
  public static Throwable knowingSchedules(Throwable error) {
    return knowing("schedules", error);
  }

  /** The same of a sidecar without checkpoints, which does not have the call (S37). */
  public static Throwable knowingCheckpoints(Throwable error) {
    return knowing("checkpoints", error);
  }

  private static Throwable knowing(String what, Throwable error) {
    boolean isMissing =
        error instanceof RefusedException refusal
            && refusal.code() == Status.Code.UNIMPLEMENTED
            && refusal.reasonName().isEmpty();
    return isMissing ? unknownCalls(what) : error;
  }

  /** The sidecar that has answered is too old (S37). */
  private static RefusedException unsupported(String what) {
    String said = "the sidecar does not know " + what;
    return made(Status.Code.UNIMPLEMENTED, said, Reason.UNSUPPORTED);
  }

  private static RefusedException made(
      Status.Code code, String said, Reason reason, Any... details) {
    ErrorInfo info =
        ErrorInfo.newBuilder().setDomain(ErrorDetails.DOMAIN).setReason(reason.name()).build();
    com.google.rpc.Status status =
        com.google.rpc.Status.newBuilder()
            .setCode(code.value())
            .setMessage(said)
            .addDetails(Any.pack(info))
            .addAllDetails(List.of(details))
            .build();
    return RefusedException.of(StatusProto.toStatusRuntimeException(status));
  }

  /** Whether the sidecar gave this reason. */
  public static boolean is(RefusedException refusal, Reason reason) {
    return refusal.reasonName().filter(reason.name()::equals).isPresent();
  }

  /**
   * Whether the connection broke, or the sidecar is being replaced: another may answer the same
   * call.
   */
  public static boolean isBreak(RefusedException refusal) {
    return refusal.reasonName().isEmpty()
        ? BREAKS.contains(refusal.code())
        : is(refusal, Reason.SHUTTING_DOWN);
  }

  /**
   * Whether another sidecar may serve what this one has refused, because it is older than the
   * request (S37).
   */
  public static boolean isBelowNeeds(RefusedException refusal) {
    return is(refusal, Reason.UNSUPPORTED)
        && ErrorDetails.of(refusal.getCause())
            .info()
            .filter(info -> info.containsMetadata("needs"))
            .isPresent();
  }

  /** Whether the same call may work soon. */
  public static boolean mayPass(RefusedException refusal) {
    return isBreak(refusal) || PASSING.contains(refusal.code());
  }
}

package dev.leasehold.client;

import com.google.protobuf.Any;
import com.google.protobuf.Message;
import com.google.rpc.ErrorInfo;
import com.google.rpc.Status;
import dev.leasehold.client.internal.clock.Durations;
import dev.leasehold.v1.BootTime;
import dev.leasehold.v1.GetHoldResponse;
import dev.leasehold.v1.Grant;
import dev.leasehold.v1.HoldLeaseResponse;
import dev.leasehold.v1.Renewed;
import dev.leasehold.v1.Validity;
import dev.leasehold.v1.Waiting;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.Map;

/** Messages of a sidecar's, for tests. */
final class Messages {
  private Messages() {}

  static Validity validity(String bootId, long until, long validFor) {
    BootTime end =
        BootTime.newBuilder()
            .setBootId(bootId)
            .setSinceBoot(Durations.toWire(Duration.ofSeconds(until)))
            .build();
    return Validity.newBuilder()
        .setValidUntil(end)
        .setValidFor(Durations.toWire(Duration.ofSeconds(validFor)))
        .build();
  }

  /** A grant of 58 s on our kernel, made at 1,000 s. */
  static Grant grantHere() {
    return grant(validity(ManualClock.OURS, 1_058, 58));
  }

  static Grant grant(Validity validity) {
    return Grant.newBuilder()
        .setLeaseId("lease-1")
        .setResumeToken("resume-1")
        .setLockPath("locks/p/h/f/s/FUNCTION")
        .setFencingToken(65_536)
        .setGeneration(1)
        .setValidity(validity)
        .build();
  }

  static GetHoldResponse info(Validity validity) {
    return GetHoldResponse.newBuilder().setValidity(validity).build();
  }

  static HoldLeaseResponse granted(Grant grant) {
    return HoldLeaseResponse.newBuilder().setGranted(grant).build();
  }

  /** The place in the queue. */
  static HoldLeaseResponse waiting() {
    return HoldLeaseResponse.newBuilder().setWaiting(Waiting.getDefaultInstance()).build();
  }

  static HoldLeaseResponse renewed(Validity validity) {
    return HoldLeaseResponse.newBuilder()
        .setRenewed(Renewed.newBuilder().setValidity(validity))
        .build();
  }

  /** An error as a sidecar sends it. */
  static StatusRuntimeException error(
      io.grpc.Status.Code code,
      String message,
      String reason,
      Map<String, String> metadata,
      Message... more) {
    ErrorInfo info =
        ErrorInfo.newBuilder()
            .setDomain("leasehold.dev")
            .setReason(reason)
            .putAllMetadata(metadata)
            .build();
    Status.Builder status =
        Status.newBuilder().setCode(code.value()).setMessage(message).addDetails(Any.pack(info));
    for (Message detail : more) {
      status.addDetails(Any.pack(detail));
    }
    return StatusProto.toStatusRuntimeException(status.build());
  }

  /** That of a sidecar that is too old for a request (S37). */
  static StatusRuntimeException tooOld() {
    Map<String, String> numbers = Map.of("needs", "2", "revision", "1");
    return error(io.grpc.Status.Code.UNIMPLEMENTED, "2 and 1", "UNSUPPORTED", numbers);
  }

  static StatusRuntimeException unavailable() {
    return io.grpc.Status.UNAVAILABLE.withDescription("gone").asRuntimeException();
  }
}

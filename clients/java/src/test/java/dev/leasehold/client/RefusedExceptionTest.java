package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.protobuf.Message;
import com.google.rpc.BadRequest;
import com.google.rpc.RetryInfo;
import dev.leasehold.client.internal.clock.Durations;
import dev.leasehold.client.internal.errors.Refusals;
import dev.leasehold.v1.ErrorReason;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import java.io.IOException;
import java.nio.channels.ClosedChannelException;
import java.time.Duration;
import java.util.EnumSet;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

class RefusedExceptionTest {
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
  }

  @Test
  void aChannelThatWasClosedWhileACallBeganIsABrokenConnection() {
    // What gRPC says of a call that meets the end of its connection.
    RefusedException refusal =
        broken(Status.Code.UNKNOWN, "channel closed", new ClosedChannelException());
    assertEquals(Status.Code.UNAVAILABLE, refusal.code());
    assertTrue(Refusals.isBreak(refusal));
    assertTrue(refusal.getMessage().contains("channel closed"), refusal.getMessage());
    assertEquals(Status.Code.UNKNOWN, broken(Status.Code.UNKNOWN, "", null).code());
  }
}

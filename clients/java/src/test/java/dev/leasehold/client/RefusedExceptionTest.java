package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.rpc.BadRequest;
import com.google.rpc.RetryInfo;
import io.grpc.Status;
import java.nio.channels.ClosedChannelException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class RefusedExceptionTest {
  @Test
  void s19FieldViolationsAreHadAsData() {
    BadRequest details =
        BadRequest.newBuilder()
            .addFieldViolations(
                BadRequest.FieldViolation.newBuilder()
                    .setField("spec.wait")
                    .setDescription("is 25 h; 0 to 24 h are allowed"))
            .build();
    RefusedException refusal =
        RefusedException.of(
            Messages.error(
                Status.Code.INVALID_ARGUMENT,
                "one field is wrong",
                "INVALID_FIELD",
                Map.of(),
                details));
    assertEquals(Status.Code.INVALID_ARGUMENT, refusal.code());
    assertEquals(Optional.of(Reason.INVALID_FIELD), refusal.reason());
    assertEquals(
        List.of(new FieldViolation("spec.wait", "is 25 h; 0 to 24 h are allowed")),
        refusal.violations());
    assertEquals("one field is wrong", refusal.sidecarMessage());
    assertEquals(
        "one field is wrong; spec.wait: is 25 h; 0 to 24 h are allowed", refusal.getMessage());
  }

  @Test
  void theTimeToTryAgainIsHadAsData() {
    RetryInfo details =
        RetryInfo.newBuilder().setRetryDelay(Durations.toWire(Duration.ofSeconds(3))).build();
    RefusedException refusal =
        RefusedException.of(
            Messages.error(Status.Code.UNAVAILABLE, "later", "STORE_THROTTLED", Map.of(), details));
    assertEquals(Optional.of(Duration.ofSeconds(3)), refusal.retryAfter());
  }

  @Test
  void anUnknownReasonKeepsItsName() {
    RefusedException refusal =
        RefusedException.of(Messages.error(Status.Code.INTERNAL, "new", "NEW_ONE", Map.of()));
    assertEquals(Optional.of("NEW_ONE"), refusal.reasonName());
    assertEquals(Optional.empty(), refusal.reason());
  }

  @Test
  void aBrokenConnectionSaysWhatItsCauseSays() {
    Throwable cause = new java.io.IOException("Connection refused");
    RefusedException refusal =
        RefusedException.of(
            Status.UNAVAILABLE
                .withDescription("io exception")
                .withCause(cause)
                .asRuntimeException());
    assertEquals(Optional.empty(), refusal.reasonName());
    assertTrue(refusal.getMessage().contains("Connection refused"), refusal.getMessage());
  }

  @Test
  void aChannelThatWasClosedWhileACallBeganIsABrokenConnection() {
    // What gRPC says of a call that meets the end of its connection.
    RefusedException refusal =
        RefusedException.of(
            Status.UNKNOWN
                .withDescription("channel closed")
                .withCause(new ClosedChannelException())
                .asRuntimeException());
    assertEquals(Status.Code.UNAVAILABLE, refusal.code());
    assertTrue(refusal.isBreak());
    assertTrue(refusal.getMessage().contains("channel closed"), refusal.getMessage());
    assertEquals(
        Status.Code.UNKNOWN,
        RefusedException.of(Status.UNKNOWN.asRuntimeException()).code(),
        "anything else that is unknown stays so");
  }
}

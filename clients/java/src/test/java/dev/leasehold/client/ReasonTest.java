package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.leasehold.v1.ErrorReason;
import dev.leasehold.v1.LossReason;
import io.grpc.Status;
import java.util.EnumSet;
import java.util.Map;
import org.junit.jupiter.api.Test;

class ReasonTest {
  @Test
  void everyReasonOfTheApiIsKnownAndNoOther() {
    EnumSet<ErrorReason> unknown = EnumSet.noneOf(ErrorReason.class);
    EnumSet<Reason> known = EnumSet.noneOf(Reason.class);
    for (ErrorReason reason : ErrorReason.values()) {
      Reason.of(reason).ifPresentOrElse(known::add, () -> unknown.add(reason));
    }
    assertEquals(
        EnumSet.of(ErrorReason.ERROR_REASON_UNSPECIFIED, ErrorReason.UNRECOGNIZED), unknown);
    assertEquals(EnumSet.allOf(Reason.class), known);
  }

  @Test
  void anAnswerThatTheHoldWasReleasedEndsIt() {
    Status.Code code = Status.Code.FAILED_PRECONDITION;
    RefusedException refusal =
        RefusedException.of(Messages.error(code, "over", "HOLD_RELEASED", Map.of()));
    assertEquals(LossReason.LOSS_REASON_UNSPECIFIED, Loss.toldBy(refusal).orElseThrow().reason());
  }
}

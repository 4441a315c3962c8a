package dev.leasehold.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.leasehold.v1.ErrorReason;
import dev.leasehold.v1.LossReason;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class ReasonTest {
  @Test
  void everyReasonOfTheApiIsKnown() {
    List<String> unknown = new ArrayList<>();
    for (ErrorReason reason : ErrorReason.values()) {
      if (Reason.of(reason).isEmpty()) {
        unknown.add(reason.name());
      }
    }
    assertEquals(List.of("ERROR_REASON_UNSPECIFIED", "UNRECOGNIZED"), unknown);
  }

  @Test
  void aNewerReasonIsKeptAsText() {
    RefusedException refusal =
        RefusedException.of(Messages.error(Status.Code.ABORTED, "no", "MOON_PHASE", Map.of()));
    assertEquals(Optional.empty(), refusal.reason());
    assertEquals("MOON_PHASE", refusal.reasonName().orElseThrow());
  }

  @Test
  void anAnswerThatTheHoldWasReleasedEndsIt() {
    Status.Code code = Status.Code.FAILED_PRECONDITION;
    RefusedException refusal =
        RefusedException.of(Messages.error(code, "over", "HOLD_RELEASED", Map.of()));
    assertEquals(LossReason.LOSS_REASON_UNSPECIFIED, Loss.toldBy(refusal).orElseThrow().reason());
  }
}

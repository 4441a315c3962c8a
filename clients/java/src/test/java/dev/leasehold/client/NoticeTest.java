package dev.leasehold.client;

import static dev.leasehold.client.Bench.soon;
import static dev.leasehold.client.ManualClock.OURS;
import static dev.leasehold.client.ManualClock.at;
import static dev.leasehold.client.Messages.validity;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.Bench.Held;
import dev.leasehold.v1.BreakMode;
import dev.leasehold.v1.BreakNote;
import dev.leasehold.v1.HoldLeaseResponse;
import dev.leasehold.v1.LossReason;
import dev.leasehold.v1.Lost;
import dev.leasehold.v1.Revoked;
import java.util.Optional;
import java.util.OptionalInt;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A break that is told while the lock is still held (S22). */
@Timeout(60)
class NoticeTest {
  private static final BreakNote NOTE =
      BreakNote.newBuilder()
          .setReason("deploy")
          .setBrokenBy("ann")
          .setMode(BreakMode.BREAK_MODE_RUN_OUT)
          .build();

  private Bench bench;

  @BeforeEach
  void open() throws Exception {
    bench = new Bench();
  }

  @AfterEach
  void close() throws Exception {
    bench.close();
  }

  private Held revoked() throws Exception {
    Held held = bench.held();
    Revoked revoked =
        Revoked.newBuilder().setValidity(validity(OURS, 1_058, 58)).setBreakNote(NOTE).build();
    held.call().tell(HoldLeaseResponse.newBuilder().setRevoked(revoked).build());
    return held;
  }

  @Test
  void s22ANoticeIsToldAndTheHoldGoesOnUntilTheDeadline() throws Exception {
    Held held = revoked();
    Notice notice = soon(held.hold().revoked());
    assertEquals(new Notice(at(1_058), "deploy", "ann", OptionalInt.empty()), notice);
    assertEquals(Optional.of(notice), held.hold().notice());
    assertEquals(notice, bench.next(HoldEvent.Revoked.class).notice());
    bench.clock.advance(57);
    assertTrue(held.hold().isValid());
    assertFalse(held.hold().lost().isDone());
  }

  @Test
  void s22AtTheDeadlineTheHoldIsLostAsBrokenThoughNobodySaysSo() throws Exception {
    Held held = revoked();
    soon(held.hold().revoked());
    bench.clock.advance(58);
    assertFalse(held.hold().isValid());
    Loss loss = soon(held.hold().lost());
    assertEquals(LossReason.LOSS_REASON_BROKEN, loss.reason());
    assertEquals(Optional.of(NOTE), loss.breakNote());
  }

  @Test
  void s22AReleaseAfterANoticeIsARelease() throws Exception {
    Held held = revoked();
    soon(held.hold().revoked());
    held.hold().release();
    held.call().awaitEnd();
  }

  @Test
  void s22AHoldThatIsResumedAfterItsNoticeIsLost() throws Exception {
    Held held = revoked();
    soon(held.hold().revoked());
    held.call().fail(Messages.unavailable());
    Lost lost = Lost.newBuilder().setReason(LossReason.LOSS_REASON_BROKEN).build();
    bench.sidecar.hold().tell(HoldLeaseResponse.newBuilder().setLost(lost).build());
    assertEquals(LossReason.LOSS_REASON_BROKEN, soon(held.hold().lost()).reason());
    assertFalse(held.hold().isValid());
  }

  @Test
  void aHoldThatWasNotBrokenHasNoNotice() throws Exception {
    Held held = bench.held();
    bench.clock.advance(58);
    soon(held.hold().lost());
    assertFalse(held.hold().revoked().isDone());
    assertEquals(Optional.empty(), held.hold().notice());
  }
}

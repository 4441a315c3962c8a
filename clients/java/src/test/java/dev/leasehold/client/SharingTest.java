package dev.leasehold.client;

import static dev.leasehold.client.Bench.soon;
import static dev.leasehold.client.ManualClock.OURS;
import static dev.leasehold.client.Messages.validity;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.leasehold.client.Bench.Held;
import dev.leasehold.client.FakeSidecar.HoldCall;
import dev.leasehold.v1.BreakNote;
import dev.leasehold.v1.Busy;
import dev.leasehold.v1.HoldLeaseResponse;
import dev.leasehold.v1.LockRecord;
import dev.leasehold.v1.PriorityStatus;
import dev.leasehold.v1.Revoked;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Priorities and shares (S33 to S35), as callers ask for them and are told of them. */
@Timeout(60)
class SharingTest {
  private static final LeaseSpec ASKED =
      LeaseSpec.of("f").priority(7).yields(true).share("listeners").rebalance(true);

  private Bench bench;

  @BeforeEach
  void open() throws Exception {
    bench = new Bench();
  }

  @AfterEach
  void close() throws Exception {
    bench.close();
  }

  private CompletableFuture<Hold> ask(LeaseSpec request) {
    return bench.client.holdAsync(request, event -> {});
  }

  private static <T extends LeaseholdException> T failure(
      CompletableFuture<Hold> asked, Class<T> kind) {
    ExecutionException failed = assertThrows(ExecutionException.class, () -> soon(asked));
    return assertInstanceOf(kind, failed.getCause());
  }

  @Test
  void s33ToS35WhatIsAskedForIsSent() throws Exception {
    CompletableFuture<Hold> asked = ask(ASKED);
    HoldCall call = bench.sidecar.hold();
    dev.leasehold.v1.LeaseSpec spec = call.request.getSpec();
    assertEquals(7, spec.getPriority());
    assertTrue(spec.getYields() && spec.getRebalance());
    assertEquals("listeners", spec.getShare());
    call.tell(Messages.granted(Messages.grantHere()));
    assertTrue(soon(asked).isValid());
  }

  private BusyException busy(Busy.Builder busy) throws Exception {
    CompletableFuture<Hold> asked = ask(ASKED);
    bench.sidecar.hold().tell(HoldLeaseResponse.newBuilder().setBusy(busy).build());
    return failure(asked, BusyException.class);
  }

  @Test
  void s33ABusyLockSaysWhyAPriorityWaits() throws Exception {
    PriorityStatus status = PriorityStatus.PRIORITY_STATUS_HOLDER_DOES_NOT_YIELD;
    LockRecord record = LockRecord.newBuilder().setSidecar("pod-a/17").setShare("others").build();
    BusyException told = busy(Busy.newBuilder().setPriorityStatus(status).setRecord(record));
    assertEquals(Optional.of(status), told.priorityStatus());
    assertTrue(told.getMessage().endsWith(" (priority: holder does not yield)"), told.getMessage());
    assertEquals("pod-a/17", told.record().getSidecar());
    for (int unknown : new int[] {0, 9_999}) {
      told = busy(Busy.newBuilder().setPriorityStatusValue(unknown));
      assertEquals(Optional.empty(), told.priorityStatus());
      assertTrue(!told.getMessage().contains("priority"), told.getMessage());
    }
  }

  private OptionalInt noticeOf(BreakNote note) throws Exception {
    Held held = bench.held();
    Revoked revoked =
        Revoked.newBuilder().setValidity(validity(OURS, 1_058, 58)).setBreakNote(note).build();
    held.call().tell(HoldLeaseResponse.newBuilder().setRevoked(revoked).build());
    OptionalInt priority = soon(held.hold().revoked()).forPriority();
    bench.next(HoldEvent.Revoked.class);
    return priority;
  }

  @Test
  void s33ANoticeTellsAGreaterPriorityFromAnOperator() throws Exception {
    BreakNote operator = BreakNote.newBuilder().setReason("deploy").build();
    assertEquals(OptionalInt.of(7), noticeOf(operator.toBuilder().setForPriority(7).build()));
    assertEquals(OptionalInt.of(0), noticeOf(operator.toBuilder().setForPriority(0).build()));
    assertEquals(OptionalInt.empty(), noticeOf(operator));
  }
}
